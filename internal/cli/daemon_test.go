package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestConfigurationComesFromEnvironmentFileAndDefault(t *testing.T) {
	type settings struct {
		A string        `mapstructure:"a"`
		B string        `mapstructure:"b"`
		C time.Duration `mapstructure:"c"`
	}
	defaults := map[string]any{"a": "default", "b": "default", "c": "5m"}
	for _, tt := range []struct {
		name, file string
		env        map[string]string
		want       settings
		code       Code
	}{
		{"the default counts where nothing else is said", "# nothing\n", nil, settings{"default", "default", 5 * time.Minute}, OK},
		{"the file wins over the default", "a: file\nc: 1s\n", nil, settings{"file", "default", time.Second}, OK},
		{"the environment wins over the file", "a: file\n", map[string]string{"PROG_A": "env"}, settings{"env", "default", 5 * time.Minute}, OK},
		{"an unknown key is refused", "a: file\nspelt_wrong: 1\n", nil, settings{}, Config},
		{"what is no YAML is refused", "a: [", nil, settings{}, Config},
		{"a duration without a unit is refused", "c: soon\n", nil, settings{}, Config},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "prog.yaml"), []byte(tt.file), 0o600); err != nil {
				t.Fatal(err)
			}
			for k, v := range tt.env {
				t.Setenv(k, v)
			}
			var got settings
			err := ReadConfig(dir, "prog.yaml", "prog", defaults, &got)
			if code := CodeOf(err); code != tt.code || (err == nil && got != tt.want) {
				t.Errorf("ReadConfig = %+v, %v (exit %d); want %+v, exit %d", got, err, code, tt.want, tt.code)
			}
		})
	}
	t.Run("all faults are told at once, and the rest can be judged", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "prog.yaml"), []byte("c: soon\nspelt_wrong: 1\na: file\nb: [1]\nnested:\n  key: 2\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		var got settings
		err := ReadConfig(dir, "prog.yaml", "prog", defaults, &got)
		var told []string
		for _, one := range Faults(err) {
			told = append(told, sentence(one))
		}
		want := []string{`prog.yaml: unknown key "nested.key"; "settings" lists all`, `prog.yaml: unknown key "spelt_wrong"; "settings" lists all`, "prog.yaml: b: ", "prog.yaml: c: "}
		if len(told) != len(want) {
			t.Fatalf("told %q, want %q", told, want)
		}
		for i := range want {
			if !strings.HasPrefix(told[i], want[i]) || strings.Contains(told[i], "decoding") {
				t.Errorf("told %q, want %q", told[i], want[i])
			}
		}
		if want := (settings{"file", "default", 5 * time.Minute}); got != want {
			t.Errorf("the rest is %+v, want %+v", got, want)
		}
	})
	if err := ReadConfig(t.TempDir(), "prog.yaml", "prog", defaults, new(settings)); CodeOf(err) != Config {
		t.Errorf("no file: %v", err)
	}
}

func TestASocketIsItsOwnersAndTakesOverADeadOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	if err := os.WriteFile(path, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	l, err := ListenSocket(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}
