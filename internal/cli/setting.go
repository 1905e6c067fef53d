package cli

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// A Setting is one key of a program's configuration file. Its default, what is
// said of it in the file that init writes and in doc/config.md, and whether a
// reload applies it are all taken from here.
type Setting struct {
	Key     string `json:"key"`
	Default string `json:"default"` // as in the file
	Values  string `json:"values"`  // unit and bounds, in words
	Live    bool   `json:"reload"`  // a reload applies it; a change of any other waits for a restart
	Doc     string `json:"doc"`     // whole sentences
}

// Settings are all keys of a program, in the order of its file.
type Settings []Setting

// KeysOf are the keys of a configuration: the mapstructure tags of its struct, in
// their order.
func KeysOf[C any](c C) []string {
	var keys []string
	t := reflect.TypeOf(c)
	for i := range t.NumField() {
		if key := t.Field(i).Tag.Get("mapstructure"); key != "" {
			keys = append(keys, key)
		}
	}
	return keys
}

// Defaults is what ReadConfig takes.
func (s Settings) Defaults() map[string]any {
	all := make(map[string]any, len(s))
	for _, one := range s {
		all[one.Key] = strings.Trim(one.Default, `"`)
	}
	return all
}

// Live are the keys that a reload applies.
func (s Settings) Live() []string {
	var keys []string
	for _, one := range s {
		if one.Live {
			keys = append(keys, one.Key)
		}
	}
	return keys
}

// File is the commented configuration file, with head above it. What is in said
// is written as a setting, everything else as a comment that shows the default.
func (s Settings) File(head string, said map[string]string) string {
	var b strings.Builder
	comment(&b, head)
	for _, one := range s {
		b.WriteByte('\n')
		comment(&b, one.Doc+" "+sentenceOf(one.Values))
		value, ok := said[one.Key]
		if !ok {
			value = one.Default
			b.WriteString("# ")
		}
		b.WriteString(one.Key + ": " + value + "\n")
	}
	return b.String()
}

// lineWidth is that of the comments of a configuration file.
const lineWidth = 80

func comment(b *strings.Builder, text string) {
	line := "#"
	for _, word := range strings.Fields(text) {
		if len(line)+1+len(word) > lineWidth {
			b.WriteString(line + "\n")
			line = "#"
		}
		line += " " + word
	}
	b.WriteString(line + "\n")
}

func sentenceOf(values string) string {
	return strings.ToUpper(values[:1]) + values[1:] + "."
}

// Markdown is the table of the settings, for people.
func (s Settings) Markdown() string {
	var b strings.Builder
	b.WriteString("| key | default | values | reload | what it does |\n|---|---|---|---|---|\n")
	for _, one := range s {
		reload := "restart"
		if one.Live {
			reload = "yes"
		}
		fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s | %s |\n", one.Key, one.Default, one.Values, reload, one.Doc)
	}
	return b.String()
}

// Faults finds what is missing in the settings of a program whose configuration
// has these keys: each has to be documented, once, with a default and its values.
func (s Settings) Faults(keys []string) []string {
	var found []string
	seen := make(map[string]bool)
	for _, one := range s {
		switch {
		case seen[one.Key]:
			found = append(found, one.Key+" is there twice")
		case !slices.Contains(keys, one.Key):
			found = append(found, one.Key+" is no key of the configuration")
		case one.Default == "" || one.Values == "" || !strings.HasSuffix(one.Doc, "."):
			found = append(found, one.Key+" has no default, no values, or no sentence")
		}
		seen[one.Key] = true
	}
	for _, key := range keys {
		if !seen[key] {
			found = append(found, key+" is not documented")
		}
	}
	return found
}

// SettingsCommand lists the settings of a program: as the table that doc/config.md
// holds, or as JSON.
func SettingsCommand(s Settings, asJSON *bool) *cobra.Command {
	return &cobra.Command{Use: "settings", Short: "List each setting of the configuration file with its default, its values and what it does", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !*asJSON {
				_, err := fmt.Fprint(cmd.OutOrStdout(), s.Markdown())
				return err
			}
			for _, one := range s {
				if err := PrintJSON(cmd.OutOrStdout(), one); err != nil {
					return err
				}
			}
			return nil
		}}
}
