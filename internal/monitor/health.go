package monitor

import (
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
)

// health adds /healthz and /readyz. Either takes JSON for "Accept:
// application/json" or "?format=json", and text else.
func (a *Admin) health(mux *http.ServeMux) {
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) { answer(w, r, http.StatusOK, &Report{}) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		report, status := a.Report(), http.StatusOK
		if !report.Ready() {
			status = http.StatusServiceUnavailable
		}
		answer(w, r, status, &report)
	})
}

// answered is a report as JSON.
type answered struct {
	Ready   bool     `json:"ready"`
	State   string   `json:"state"` // ok, warning or not ready
	Reasons []Reason `json:"reasons"`
}

func answer(w http.ResponseWriter, r *http.Request, status int, report *Report) {
	if r.URL.Query().Get("format") != "json" && !strings.Contains(r.Header.Get("Accept"), "application/json") {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(status)
		io.WriteString(w, report.String())
		return
	}
	b, err := json.Marshal(answered{report.Ready(), report.Word(), append([]Reason{}, report.Reasons...)})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, "%s\n", b)
}
