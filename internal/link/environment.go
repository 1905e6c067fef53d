package link

import (
	"fmt"
	"net/url"

	"golang.org/x/net/http/httpproxy"
)

// NoProxy as the name of a proxy means that none is used, whatever the
// environment says.
const NoProxy = "off"

// ProxyFor makes Dialer.Proxy of a setting: the URL of a proxy, NoProxy, or
// nothing for HTTPS_PROXY of the environment. NO_PROXY counts in each case; and a
// peer on this machine is reached directly.
func ProxyFor(setting string) (func(address string) (*url.URL, error), error) {
	if setting == NoProxy {
		return nil, nil
	}
	c := httpproxy.FromEnvironment()
	if setting != "" {
		c.HTTPSProxy = setting
	}
	if c.HTTPSProxy == "" {
		return nil, nil
	}
	if u, err := url.Parse(c.HTTPSProxy); setting != "" && (err != nil || checkProxy(u) != nil) {
		return nil, fmt.Errorf("proxy %.80q: want http://HOST:PORT, https://HOST:PORT or %s", redacted(setting), NoProxy)
	}
	choose := c.ProxyFunc()
	return func(address string) (*url.URL, error) {
		u, err := choose(&url.URL{Scheme: "https", Host: address})
		if err != nil || u == nil {
			return nil, err
		}
		return u, checkProxy(u)
	}, nil
}

func checkProxy(u *url.URL) error {
	if u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return fmt.Errorf("a proxy of scheme %.20q is not supported", u.Scheme)
	}
	return nil
}

// redacted is a setting without the password that it may hold.
func redacted(setting string) string {
	if u, err := url.Parse(setting); err == nil {
		return u.Redacted()
	}
	return "that was set"
}
