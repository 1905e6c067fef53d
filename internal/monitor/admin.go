package monitor

import (
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/grpc"
)

// Bounds of the admin listener.
const (
	scrapes     = 4                // of /metrics at a time; more are refused
	scrapeTime  = 10 * time.Second // of one
	maxHostName = 255
)

// An Admin is what a daemon serves to its operator.
type Admin struct {
	// Address is what the daemon was told to listen on: its host, if it is a name,
	// is one by which the listener may be asked.
	Address string
	// Service is the daemon's name in gRPC health v1.
	Service string
	// Report says how the daemon does.
	Report func() Report
	// Page is what the page shows.
	Page func() Page
	// Collectors are the daemon's metrics.
	Collectors []prometheus.Collector
	// Profiles serves /debug/pprof/, which shows the insides of the process.
	Profiles bool
	Log      *slog.Logger
}

// A Handler serves an Admin. It speaks HTTP/1.1, and HTTP/2 without TLS for gRPC.
type Handler struct {
	http http.Handler
	grpc *grpc.Server
	name string
}

// Handler makes the handler of a.
func (a *Admin) Handler() *Handler {
	mux := http.NewServeMux()
	a.health(mux)
	r := prometheus.NewPedanticRegistry() // its own: what a library registers elsewhere is not shown
	r.MustRegister(a.Collectors...)
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux.Handle("GET /metrics", promhttp.HandlerFor(r, promhttp.HandlerOpts{MaxRequestsInFlight: scrapes, Timeout: scrapeTime}))
	if a.Page != nil {
		mux.HandleFunc("GET /{$}", a.servePage)
	}
	if a.Profiles {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	}
	return &Handler{http: mux, grpc: newHealthServer(a.Report, a.Service), name: hostOf(a.Address)}
}

// Configure has the server speak HTTP/2 without TLS as well.
func (h *Handler) Configure(s *http.Server) {
	s.Protocols = new(http.Protocols)
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetUnencryptedHTTP2(true)
}

// ServeHTTP turns away whoever was led here under another name: a page elsewhere
// whose name was made to resolve to this listener would be of one origin with it,
// for the browser, and could read all of it. Only an address, localhost, and the
// configured name are names of this listener.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !h.own(r.Host) {
		http.Error(w, "this listener does not go by that name", http.StatusMisdirectedRequest)
		return
	}
	if r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
		h.grpc.ServeHTTP(w, r)
		return
	}
	head := w.Header()
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Referrer-Policy", "no-referrer")
	head.Set("Cross-Origin-Resource-Policy", "same-origin")
	head.Set("Cross-Origin-Opener-Policy", "same-origin")
	head.Set("Cache-Control", "no-store")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		head.Set("Allow", "GET, HEAD")
		http.Error(w, "nothing is changed here; use the commands", http.StatusMethodNotAllowed)
		return
	}
	h.http.ServeHTTP(w, r)
}

func (h *Handler) own(host string) bool {
	if len(host) > maxHostName {
		return false
	}
	name := hostOf(host)
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	return name == "localhost" || name != "" && name == h.name
}

// hostOf is the host of host:port, or of a host alone.
func hostOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = strings.Trim(address, "[]")
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}
