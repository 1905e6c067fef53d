package evaluate

import (
	"fmt"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// signatureChecks are step 1 of UZPIF-OI 9.1.4, for what the indexer signed
// and for what it refers to.
func (v *verification) signatureChecks() []check {
	by := func(who envelope.Name, what string, run func() (string, error)) check {
		return check{Signatures, RuleSignature, fmt.Sprintf("%s signed by %s.", what, who), run}
	}
	checks := []check{
		by(v.indexer, "The log entry is", v.openEntry),
		by(v.indexer, "The checkpoint is", v.openCheckpoint),
	}
	if len(v.ev.Receipt) > 0 {
		checks = append(checks, by(v.indexer, "The receipt is", v.openReceipt))
	}
	if len(v.ev.Acknowledgement) > 0 {
		checks = append(checks, by(v.indexer, "The acknowledgement of the revocation is", v.openAcknowledgement))
	}
	checks = append(checks, by(v.publisher, "Grant and policy are", v.openGrant))
	if len(v.ev.Manifest) > 0 {
		checks = append(checks, by(v.publisher, "The batch's manifest is", v.openManifest))
	}
	if len(v.ev.Revocation) > 0 {
		checks = append(checks, by(v.publisher, "The revocation is", v.openRevocation))
	}
	return checks
}

func (v *verification) openEntry() (_ string, err error) {
	v.entry, err = authenticate[translog.Entry](v.ev.Entry, envelope.Entry, v.indexerKeys, v.indexer)
	v.entries = []signed[translog.Entry]{v.entry}
	if err != nil {
		return "", err
	}
	return "at " + envelope.At(v.entry.IssuedAt).String(), nil
}

func (v *verification) openCheckpoint() (_ string, err error) {
	v.checkpoint, err = authenticate[translog.Checkpoint](v.ev.Checkpoint, envelope.Checkpoint, v.indexerKeys, v.indexer)
	return "", err
}

func (v *verification) openReceipt() (_ string, err error) {
	v.receipt, err = authenticate[translog.Receipt](v.ev.Receipt, envelope.Receipt, v.indexerKeys, v.indexer)
	return "", err
}

func (v *verification) openAcknowledgement() (_ string, err error) {
	v.acknowledgement, err = authenticate[translog.Acknowledgement](v.ev.Acknowledgement, envelope.Acknowledgement, v.indexerKeys, v.indexer)
	return "", err
}

func (v *verification) openGrant() (string, error) {
	if _, err := authenticate[grants.GrantBody](v.ev.Grant, envelope.DiscoveryGrant, v.publisherKeys, v.publisher); err != nil {
		return "", err
	}
	_, err := authenticate[grants.PolicyBody](v.ev.Policy, envelope.Policy, v.publisherKeys, v.publisher)
	return "", err
}

func (v *verification) openManifest() (_ string, err error) {
	v.manifest, err = authenticate[translog.Manifest](v.ev.Manifest, envelope.BatchManifest, v.publisherKeys, v.publisher)
	return "", err
}

func (v *verification) openRevocation() (string, error) {
	_, err := authenticate[grants.RevocationBody](v.ev.Revocation, envelope.Revocation, v.publisherKeys, v.publisher)
	return "", err
}
