package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spf13/viper"
)

// ReadConfig reads the YAML file of a program in dir into the struct at into,
// by its mapstructure tags. The environment (PREFIX_KEY) wins over the file,
// and that over defaults, which have a value for each key. Unknown keys are refused.
//
// If the file cannot be read, or is no YAML, into stays as it is. Otherwise all
// faults of single keys are told at once, and into has the default for each value
// that cannot be used, so that the caller can judge the others.
func ReadConfig(dir, file, prefix string, defaults map[string]any, into any) error {
	v := viper.New()
	for key, value := range defaults {
		v.SetDefault(key, value)
	}
	v.SetEnvPrefix(prefix)
	v.AutomaticEnv()
	v.SetConfigFile(filepath.Join(dir, file))
	if err := v.ReadInConfig(); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return Errorf(Config, "%s: no %s here; make an identity with init, or say --dir", dir, file)
		}
		return Errorf(Config, "%s: %w", file, err)
	}
	var faults []error
	for _, key := range slices.Sorted(slices.Values(v.AllKeys())) {
		if _, known := defaults[key]; !known {
			faults = append(faults, fmt.Errorf("%s: unknown key %q; \"settings\" lists all", file, key))
		}
	}
	fields := reflect.ValueOf(into).Elem()
	for i := range fields.NumField() {
		key := fields.Type().Field(i).Tag.Get("mapstructure")
		if key == "" {
			continue
		}
		field := fields.Field(i).Addr().Interface()
		if err := v.UnmarshalKey(key, field); err != nil {
			faults = append(faults, fmt.Errorf("%s: %s: %s", file, key, decodingFault(fields.Field(i).Interface(), err)))
			v.Set(key, defaults[key])
			if err := v.UnmarshalKey(key, field); err != nil {
				faults = append(faults, fmt.Errorf("%s: the default: %w", key, err))
			}
		}
	}
	return With(Config, errors.Join(faults...))
}

// decodingFault says what a field wants that a value could not be put into. Where we
// have no word for it, it is what mapstructure says, without its title and the name of
// a field, which the value alone does not have.
func decodingFault(field any, err error) string {
	switch field.(type) {
	case time.Duration:
		return "want a duration with its unit, such as 30s or 12h"
	case bool:
		return "want true or false"
	case int, int64, uint32, uint64, float64:
		return "want a number"
	}
	text := err.Error()
	if title, rest, ok := strings.Cut(text, "\n\n"); ok && strings.HasSuffix(title, ":") {
		text = rest
	}
	text = strings.TrimPrefix(strings.Join(strings.Fields(text), " "), "'' ")
	return text
}
