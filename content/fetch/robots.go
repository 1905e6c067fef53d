package fetch

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
)

// Robots is a robots.txt (RFC 9309), as far as it speaks to one crawler.
type Robots struct {
	Sitemaps []string // the values of its Sitemap lines, at most 100
	// Uses is the text without the lines that have nothing to do with the use
	// of pages; those are empty.
	Uses  []byte
	rules []robotsRule
	deny  bool // everything
}

type robotsRule struct {
	pattern string
	allow   bool
}

// Bounds of what is read of a robots.txt. RFC 9309 asks for 500 KiB or more.
const (
	maxRobots     = 512 << 10
	maxRobotLine  = 8 << 10
	maxRobotRules = 10_000
	maxUses       = 250 << 10 // octets of Robots.Uses
)

// Robots fetches and reads the robots.txt of a URL's origin. As RFC 9309 has
// it, one that is not there allows everything, and one that cannot be reached
// allows nothing; then the error says why.
func (c *Client) Robots(ctx context.Context, rawURL, product string) (*Robots, error) {
	o, err := Origin(rawURL)
	if err != nil {
		return &Robots{deny: true}, err
	}
	r, err := c.Get(ctx, o+"/robots.txt", Conditions{Accept: "text/plain, */*;q=0.1"})
	var status *StatusError
	if errors.As(err, &status) && status.Code >= 400 && status.Code < 500 && status.Code != http.StatusTooManyRequests {
		return &Robots{}, nil
	}
	if err != nil {
		return &Robots{deny: true}, err
	}
	defer r.Body.Close()
	robots, err := ParseRobots(r.Body, product)
	if err != nil {
		return &Robots{deny: true}, err
	}
	return robots, nil
}

// ParseRobots reads the groups that speak to product, or, if none does, those
// for all. What stands behind the first 512 KiB is not read.
func ParseRobots(r io.Reader, product string) (*Robots, error) {
	lines := bufio.NewReaderSize(io.LimitReader(r, maxRobots), maxRobotLine)
	var forAll, forUs []robotsRule
	var toAll, toUs, ours, inRules bool
	robots := &Robots{}
	for {
		line, isPrefix, err := lines.ReadLine()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		for isPrefix && err == nil { // the rest of a line that is too long
			_, isPrefix, err = lines.ReadLine()
		}
		robots.use(line)
		text, _, _ := strings.Cut(string(line), "#")
		name, value, ok := strings.Cut(text, ":")
		if value = strings.TrimSpace(value); !ok {
			continue
		}
		switch strings.ToLower(strings.TrimSpace(strings.TrimPrefix(name, "\ufeff"))) {
		case "user-agent":
			if inRules {
				toAll, toUs, inRules = false, false, false
			}
			toAll = toAll || value == "*"
			if strings.EqualFold(productOf(value), product) {
				toUs, ours = true, true
			}
		case "allow", "disallow":
			inRules = true
			rule := robotsRule{value, strings.EqualFold(strings.TrimSpace(name), "allow")}
			if value != "" && toUs && len(forUs) < maxRobotRules {
				forUs = append(forUs, rule)
			}
			if value != "" && toAll && len(forAll) < maxRobotRules {
				forAll = append(forAll, rule)
			}
		case "sitemap":
			if len(robots.Sitemaps) < 100 {
				robots.Sitemaps = append(robots.Sitemaps, value)
			}
		}
	}
	robots.rules = forAll
	if ours {
		robots.rules = forUs
	}
	return robots, nil
}

// use keeps a line for Uses, or an empty one in its place.
func (r *Robots) use(line []byte) {
	if len(r.Uses)+len(line)+1 > maxUses {
		return
	}
	name, _, _ := strings.Cut(string(line), ":")
	switch strings.ToLower(strings.TrimSpace(strings.TrimPrefix(name, "\ufeff"))) {
	case "user-agent", "allow", "disallow", "content-usage", "content-signal":
		r.Uses = append(r.Uses, line...)
	}
	r.Uses = append(r.Uses, '\n')
}

// productOf cuts the product token off a user-agent line.
func productOf(s string) string {
	end := strings.IndexFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != '-' && r != '_'
	})
	if end < 0 {
		return s
	}
	return s[:end]
}

// Allowed reports whether a URL of the origin may be fetched: by the rule with
// the longest pattern that matches, and by one that allows where two are as long.
func (r *Robots) Allowed(rawURL string) bool {
	if r.deny {
		return false
	}
	u, err := parse(rawURL)
	if err != nil {
		return false
	}
	target := u.EscapedPath()
	if target == "" {
		target = "/"
	}
	if u.RawQuery != "" {
		target += "?" + u.RawQuery
	}
	longest, allowed := -1, true
	for _, rule := range r.rules {
		if n := len(rule.pattern); n >= longest && matchesPattern(rule.pattern, target) {
			if n > longest || rule.allow {
				longest, allowed = n, rule.allow
			}
		}
	}
	return allowed
}

// matchesPattern matches a pattern in which * stands for anything, and $ at the
// end for the end. It takes linear time for each star.
func matchesPattern(pattern, target string) bool {
	pattern, anchored := strings.CutSuffix(pattern, "$")
	parts := strings.Split(pattern, "*")
	if !strings.HasPrefix(target, parts[0]) {
		return false
	}
	target = target[len(parts[0]):]
	for i, part := range parts[1:] {
		if anchored && i == len(parts)-2 {
			return strings.HasSuffix(target, part)
		}
		at := strings.Index(target, part)
		if at < 0 {
			return false
		}
		target = target[at+len(part):]
	}
	return !anchored || target == ""
}
