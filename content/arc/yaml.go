package arc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"
)

// Bounds of YAML, which is parsed as a whole: its size in octets, and how many
// of those can begin another node, which bounds the nodes as well.
const (
	maxYAML      = 4 << 20
	maxYAMLMarks = 500_000
)

// jsonOfYAML turns one YAML document into JSON. It takes what JSON could say as
// well, and refuses the rest: aliases and anchors, merge keys, tags of other
// types, keys that are no strings, and a second document. A time that stands
// without quotes is taken as the string that it looks like.
func jsonOfYAML(r io.Reader) ([]byte, error) {
	source, err := io.ReadAll(io.LimitReader(r, maxYAML+1))
	if err != nil {
		return nil, err
	}
	if len(source) > maxYAML {
		return nil, limit("YAML of more than %d octets", maxYAML)
	}
	marks := 0
	for _, c := range source {
		switch c {
		case ',', ':', '-', '?', '[', '{', '\n', '&', '*':
			if marks++; marks > maxYAMLMarks {
				return nil, limit("YAML with more than %d marks of structure", maxYAMLMarks)
			}
		}
	}
	d := yaml.NewDecoder(bytes.NewReader(source))
	var document, second yaml.Node
	if err := d.Decode(&document); err != nil {
		return nil, malformed("YAML: %w", err)
	}
	if err := d.Decode(&second); err != io.EOF {
		return nil, malformed("YAML: something follows the document")
	}
	var out bytes.Buffer
	e := jsontext.NewEncoder(&out)
	if document.Kind != yaml.DocumentNode || len(document.Content) != 1 {
		return nil, malformed("YAML: no document")
	}
	if err := encodeYAML(e, document.Content[0], 1); err != nil {
		return nil, malformed("YAML: %w", err)
	}
	return out.Bytes(), nil
}

// encodeYAML writes a node as JSON.
func encodeYAML(e *jsontext.Encoder, n *yaml.Node, depth int) error {
	if depth > maxDepth+2 {
		return limit("more than %d levels deep", maxDepth+2)
	}
	if n.Anchor != "" || n.Kind == yaml.AliasNode {
		return fmt.Errorf("line %d: aliases and anchors are not taken", n.Line)
	}
	switch n.Kind {
	case yaml.MappingNode:
		if n.ShortTag() != "!!map" {
			return fmt.Errorf("line %d: a mapping of type %.40q", n.Line, n.ShortTag())
		}
		if err := e.WriteToken(jsontext.BeginObject); err != nil {
			return err
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			if key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str" || key.Anchor != "" {
				return fmt.Errorf("line %d: a key that is no string", key.Line)
			}
			if err := e.WriteToken(jsontext.String(key.Value)); err != nil {
				return err
			}
			if err := encodeYAML(e, n.Content[i+1], depth+1); err != nil {
				return err
			}
		}
		return e.WriteToken(jsontext.EndObject)
	case yaml.SequenceNode:
		if n.ShortTag() != "!!seq" {
			return fmt.Errorf("line %d: a sequence of type %.40q", n.Line, n.ShortTag())
		}
		if err := e.WriteToken(jsontext.BeginArray); err != nil {
			return err
		}
		for _, inner := range n.Content {
			if err := encodeYAML(e, inner, depth+1); err != nil {
				return err
			}
		}
		return e.WriteToken(jsontext.EndArray)
	case yaml.ScalarNode:
		return encodeScalar(e, n)
	}
	return errors.New("a node of an unknown kind")
}

// encodeScalar writes a scalar as JSON.
func encodeScalar(e *jsontext.Encoder, n *yaml.Node) error {
	switch n.ShortTag() {
	case "!!str", "!!timestamp":
		return e.WriteToken(jsontext.String(n.Value))
	case "!!null":
		return e.WriteToken(jsontext.Null)
	case "!!bool":
		var b bool
		if err := n.Decode(&b); err != nil {
			return err
		}
		return e.WriteToken(jsontext.Bool(b))
	case "!!int", "!!float":
		var f float64
		if err := n.Decode(&f); err != nil {
			return err
		}
		v := jsontext.Value(strconv.FormatFloat(f, 'g', -1, 64))
		if !v.IsValid() {
			return fmt.Errorf("line %d: %.40q is no number of JSON", n.Line, n.Value)
		}
		return e.WriteValue(v)
	}
	return fmt.Errorf("line %d: a value of type %.40q", n.Line, n.ShortTag())
}
