package house

import (
	"cmp"
	"os"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// alertRules are the names and expressions of deploy/alerts.yaml.
func alertRules(t *testing.T) map[string]string {
	t.Helper()
	raw, err := os.ReadFile("../../deploy/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Rules []struct{ Alert, Record, Expr string }
		}
	}
	if err := yaml.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	rules := make(map[string]string)
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			rules[cmp.Or(r.Alert, r.Record)] = r.Expr
		}
	}
	if len(rules) < 20 {
		t.Fatalf("only %d rules were found", len(rules))
	}
	return rules
}

// TestAlertsNameMetricsThatExist compares the rules with doc/metrics.md, which the
// tests of the daemons compare with what they serve.
func TestAlertsNameMetricsThatExist(t *testing.T) {
	raw, err := os.ReadFile("../../doc/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	doc := string(raw)
	for alert, expr := range alertRules(t) {
		for _, name := range regexp.MustCompile(`\buzpif_oi_[a-z0-9_]+`).FindAllString(expr, -1) {
			if !strings.Contains(doc, "| `"+name+"` |") && !strings.Contains(doc, "| `"+strings.TrimSuffix(name, "_bucket")+"` | histogram |") {
				t.Errorf("%s: doc/metrics.md does not know %s", alert, name)
			}
		}
	}
}

func TestEachAlertHasItsCase(t *testing.T) {
	raw, err := os.ReadFile("../../deploy/alerts_test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for alert := range alertRules(t) {
		if strings.Contains(alert, ":") { // a figure that other rules use
			if !strings.Contains(string(raw), "expr: '"+alert+"'") {
				t.Errorf("%s has no value in alerts_test.yaml", alert)
			}
			continue
		}
		if n := strings.Count(string(raw), `alertname="`+alert+`"`); n != 2 {
			t.Errorf("%s has %d moments in alerts_test.yaml, want one at which it fires and one at which it does not", alert, n)
		}
	}
}
