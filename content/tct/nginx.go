package tct

import (
	"bytes"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// The files that an export writes for nginx: one to include inside http{}, and
// one inside server{}.
const (
	NginxHTTP   = "tct-http.conf"
	NginxServer = "tct-server.conf"
)

// writeNginx writes a configuration by which nginx serves the export as the
// draft asks. Nginx makes an ETag of a file's time and size, which can never be
// the hash of a payload; so the hash and the C-URL of each M-URL stand in two
// maps, and If-None-Match is matched against the hash: lists, weak tags and *
// included.
func (x *Export) writeNginx() error {
	_, rest, _ := strings.Cut(x.config.Mapping.Base, "://")
	_, prefix, _ := strings.Cut(rest, "/")
	if strings.IndexByte(prefix, '%') >= 0 {
		return fmt.Errorf("base URL %q: percent-encoding cannot be written for nginx", x.config.Mapping.Base)
	}
	dir, err := filepath.Abs(x.config.Dir)
	if err != nil {
		return err
	}
	for name, text := range map[string][]byte{
		NginxHTTP: x.nginxHTTP(prefix), NginxServer: x.nginxServer(prefix, filepath.ToSlash(dir)),
	} {
		if err := durable.WriteFile(filepath.Join(x.config.Nginx, name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (x *Export) nginxHTTP(prefix string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# An export of %s. Reload nginx whenever this file has changed.\n", x.config.Mapping.Base)
	fmt.Fprintf(&b, "map_hash_max_size %d;\nmap_hash_bucket_size 1024;\ngeo $tct_dollar { default \"$\"; }\n", max(2048, 4*len(x.rows)))
	for _, part := range []struct {
		name  string
		value func(Item) string
	}{
		{"tct_hash", func(i Item) string { return i.Hash }},
		{"tct_canonical", func(i Item) string { return strings.ReplaceAll(i.CURL, "$", "${tct_dollar}") }},
	} {
		fmt.Fprintf(&b, "map $uri $%s {\n", part.name)
		for _, item := range x.rows {
			name, _ := x.config.Mapping.File(item.MURL) // Add has seen it
			fmt.Fprintf(&b, "%s %s;\n", nginxString("/"+prefix+name), nginxString(part.value(item)))
		}
		b.WriteString("}\n")
	}
	return b.Bytes()
}

func (x *Export) nginxServer(prefix, dir string) []byte {
	at := "^/" + regexp.QuoteMeta(prefix)
	slug := x.config.Mapping.slug()
	links := fmt.Sprintf(`add_header Link '</%s%s>; rel="describedby"; type="application/json"';`, prefix, PolicyFile)
	if x.config.Policy == nil {
		links = ""
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `location ~ "%[1]s(?<tct_file>llm-sitemap(-[0-9a-f]{16})?\.json|llm-policy\.json)$" {
alias "%[2]s/$tct_file";
types { }
default_type application/json;
gzip_static on;
%[3]s
add_header Cache-Control "max-age=0, must-revalidate, stale-while-revalidate=60";
add_header Vary Accept-Encoding;
}
location ~ "%[1]s(?<tct_file>(.*[/.])?%[4]s\.json|%[4]s/u-[0-9a-f]{64}\.json)$" {
if ($tct_hash = "") { return 404; }
if ($http_if_none_match = "*") { return 304; }
set $tct_match "$tct_hash $http_if_none_match";
if ($tct_match ~ "^(sha256-[0-9a-f]+) .*\"\1(-gzip)?\"") { return 304; }
alias "%[2]s/$tct_file";
types { }
default_type "application/json; charset=utf-8";
etag off;
add_header ETag "\"$tct_hash\"";
add_header Link "<$tct_canonical>; rel=\"canonical\"";
add_header Cache-Control "%[5]s";
add_header Vary Accept-Encoding;
}
`, at, strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", "${tct_dollar}").Replace(dir), links, slug, pageCaching)
	return b.Bytes()
}

func nginxString(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}
