package publisher

import "github.com/uzpif-oi/uzpif-oi/content/fetch"

// proxyCredential reads the credential for the proxy; no error shows it.
func (p *Publisher) proxyCredential() (string, error) {
	c, err := readCredentials(p.dir, p.proxySecret)
	return c.Header(), err
}

// readCredentials reads the file of a credential, empty for none.
func readCredentials(dir, file string) (fetch.Credential, error) {
	if file == "" {
		return fetch.Credential{}, nil
	}
	text, err := (&Remote{CredentialsFile: file}).secret(dir)
	if err != nil {
		return fetch.Credential{}, err
	}
	return fetch.ParseCredential(text)
}

// CheckCredentials refuses a file of a credential that could not be used.
func CheckCredentials(dir, file string) error {
	_, err := readCredentials(dir, file)
	return err
}
