package site

// Rules say what only a site's style sheet or scripts would show. Names are
// compared whole, and upper and lower case are different.
type Rules struct {
	// An element is navigation, and left out, with one of Classes among its
	// classes, one of IDs as its id, or one of Roles as its ARIA role. Neither
	// html nor body is ever navigation.
	Classes, IDs, Roles []string

	// The children of an element with one of Lines among its classes stand on
	// a line each, though they are inline elements.
	Lines []string
}

// DefaultRules returns the rules for a site that states none: the names that
// common generators give to menus, breadcrumbs, tables of contents, page
// turners and links to headings, and to lists of names that share one line of
// a table.
func DefaultRules() Rules {
	return Rules{
		Classes: []string{
			"anchor", "breadcrumb", "breadcrumbs", "catlinks", "doc-anchor", "editsection", "headerlink", "menu",
			"mw-editsection", "mw-jump", "mw-jump-link", "nav", "nav-links", "nav-menu", "nav-panel", "navbar",
			"navbox", "navfooter", "navheader", "navigation", "pager", "pagination", "prev-next", "printfooter",
			"sidebar", "site-nav", "skip-link", "skip-main-content", "skip-nav", "skip-to-content", "sphinxsidebar",
			"t-navbar", "table-of-contents", "tableofcontents", "toc", "wy-nav-side",
		},
		IDs: []string{
			"breadcrumb", "breadcrumbs", "catlinks", "contentSub", "gtoc", "jump-to-nav", "mdbook-help-popup",
			"mdbook-menu-bar", "menu", "menu-bar", "mw-head", "mw-navigation", "mw-panel", "nav", "navbar",
			"navigation", "sidebar", "siteSub", "skip-link", "toc",
		},
		Roles: []string{"menu", "menubar", "navigation", "search"},
		Lines: []string{"t-lines"},
	}
}

// A ruleSet is Rules, made ready for asking.
type ruleSet struct {
	names map[string]verdict // by "." and class, "#" and id, "@" and role

	// maybe has a bit for the length of each class, by its first octet: most
	// classes of a page need no more than that to be told apart.
	maybe [256]uint64
}

// verdict is what the rules say of an element.
type verdict uint8

const (
	navigation verdict = 1 << iota
	lines
)

func (r Rules) set() *ruleSet {
	s := &ruleSet{names: make(map[string]verdict)}
	add := func(prefix string, v verdict, names []string) {
		for _, name := range names {
			s.names[prefix+name] |= v
			if prefix == "." && name != "" {
				s.maybe[name[0]] |= 1 << (len(name) & 63)
			}
		}
	}
	add(".", navigation, r.Classes)
	add(".", lines, r.Lines)
	add("#", navigation, r.IDs)
	add("@", navigation, r.Roles)
	return s
}

// judge returns what the rules say of an element with these attributes.
func (s *ruleSet) judge(a *attributes) (v verdict) {
	if a.id != nil {
		v |= s.names["#"+string(a.id)]
	}
	if a.role != nil {
		v |= s.names["@"+string(a.role)]
	}
	for rest := a.class; len(rest) > 0; {
		n := 0
		for n < len(rest) && !isSpace(rest[n]) {
			n++
		}
		if n > 0 && s.maybe[rest[0]]>>(n&63)&1 == 1 {
			v |= s.names["."+string(rest[:n])]
		}
		rest = rest[min(n+1, len(rest)):]
	}
	return v
}
