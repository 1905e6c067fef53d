package main

// changing are the commands that are written down in audit.log: they change
// something, or hand something out.
func changing() []string {
	return []string{
		"init", "run", "trust add", "trust remove", "trust ca add", "trust ca remove", "key rotate", "key lost",
		"source add", "source remove", "grant issue", "grant renew", "grant revoke", "grant feed", "export", "push", "disclose", "backup",
	}
}

// reading are the other ones. TestEveryCommandIsWrittenDownOrReads finds one that is
// in neither list.
func reading() []string {
	return []string{
		"card", "settings", "trust list", "trust ca list", "key list", "source list", "source scan", "grant list", "grant show", "status", "refused",
		"receipts list", "receipts show", "receipts verify", "evidence", "equivocations", "equivocations show", "check-config", "version", "man",
	}
}
