package durable

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
)

// ReadJSON decodes the JSON row at key into v, and reports whether it is there.
func ReadJSON(r Getter, key []byte, v any) (bool, error) {
	b, err := r.Get(key)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return false, fmt.Errorf("row %q: %w", key, err)
	}
	return true, nil
}

// WriteJSON adds v as the JSON row at key to b.
func WriteJSON(b *Batch, key []byte, v any) error {
	value, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return b.Set(key, value)
}
