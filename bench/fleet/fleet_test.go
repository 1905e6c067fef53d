package fleet

import "testing"

func TestRsyncsOctetsAreReadFromItsStatistics(t *testing.T) {
	n, err := moved([]byte("Number of files: 3\nTotal bytes sent: 1,234\nTotal bytes received: 5,000,006\n\nsent 1,234 bytes\n"))
	if err != nil || n != 5_001_240 {
		t.Errorf("%d, %v", n, err)
	}
	for _, stats := range []string{"", "Total bytes sent: 1\n", "Total bytes sent: x\nTotal bytes received: 1\n"} {
		if n, err := moved([]byte(stats)); err == nil {
			t.Errorf("%q: %d", stats, n)
		}
	}
}

func TestResultsThatDifferBetweenIndexersAreNoMeasurement(t *testing.T) {
	const a, b = `{"sent":7,"wire_bytes_out":10,"wire_bytes_in":5,"round_trips":3}` + "\n", `{"sent":6}` + "\n"
	var ph Phase
	if err := ph.add([]byte(a+a), 2); err != nil || ph.Octets != 15 || ph.RoundTrips != 5 {
		t.Errorf("%+v, %v", ph, err)
	}
	for _, lines := range []string{a, a + b, a + a + a} {
		if err := new(Phase).add([]byte(lines), 2); err == nil {
			t.Errorf("%s was taken", lines)
		}
	}
}
