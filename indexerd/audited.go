package main

// changing are the commands that are written down in audit.log: they change
// something, or hand something out.
func changing() []string {
	return []string{
		"init", "run", "trust add", "trust remove", "trust ca add", "trust ca remove", "key rotate", "key lost",
		"consumer add", "consumer remove", "export", "ask", "backup", "log freeze", "log rotate",
	}
}

// reading are the other ones. TestEveryCommandIsWrittenDownOrReads finds one that is
// in neither list.
func reading() []string {
	return []string{
		"card", "settings", "trust list", "trust ca list", "key list", "status", "agreements", "publishers", "page", "evidence", "log status",
		"consumer list", "consumer holders", "feed", "fsck", "equivocations", "equivocations show", "check-config", "version", "man",
	}
}
