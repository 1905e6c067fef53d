package durable

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
)

func TestJSONRowsComeBackAsTheyWent(t *testing.T) {
	s, err := Open(filepath.Join(t.TempDir(), "store"), Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	b := s.NewBatch()
	defer b.Close()
	type row struct {
		N uint64 `json:"n"`
	}
	var got row
	if ok, err := ReadJSON(b, []byte("k"), &got); ok || err != nil {
		t.Errorf("a row that is not there: %t, %v", ok, err)
	}
	if err := WriteJSON(b, []byte("k"), row{7}); err != nil {
		t.Fatal(err)
	}
	if ok, err := ReadJSON(b, []byte("k"), &got); !ok || err != nil || got.N != 7 {
		t.Errorf("ReadJSON = %t, %v, %+v", ok, err, got)
	}
	if err := b.Set([]byte("bad"), []byte("{")); err != nil {
		t.Fatal(err)
	}
	if ok, err := ReadJSON(b, []byte("bad"), &got); ok || err == nil || !strings.Contains(err.Error(), `"bad"`) {
		t.Errorf("a damaged row: %t, %v", ok, err)
	}
}
