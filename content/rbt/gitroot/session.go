package gitroot

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"

	"github.com/uzpif-oi/uzpif-oi/content/fetch"
	"github.com/uzpif-oi/uzpif-oi/content/rbt"
)

// Bounds of what is read before the pack.
const (
	maxAdvertisement = 64 << 20 // octets: half a million refs
	maxShallow       = 10_000   // commits at which the history is cut off
	maxAcks          = 64
)

// A session asks one server for one pack (git's protocol, version 0). Its
// methods are called once each, in this order.
type session interface {
	// advertised reads the server's refs.
	advertised(ctx context.Context) (*packp.AdvRefs, error)
	// ask sends a request and returns what comes back.
	ask(ctx context.Context, request []byte) (io.ReadCloser, error)
	// close ends everything, and waits for it.
	close()
}

func (c *Client) connect(ctx context.Context, r rbt.Remote) (session, error) {
	if r.Scheme == "ssh" {
		return c.dialSSH(ctx, r)
	}
	return &webSession{client: c, base: r.String()}, nil
}

// readAdvertised decodes the server's refs.
func readAdvertised(r io.Reader) (*packp.AdvRefs, error) {
	adv := packp.NewAdvRefs()
	limited := &io.LimitedReader{R: r, N: maxAdvertisement}
	err := adv.Decode(limited)
	switch {
	case err != nil && limited.N == 0:
		return nil, fmt.Errorf("%w: more than %d octets of refs", ErrTooLarge, maxAdvertisement)
	case errors.Is(err, packp.ErrEmptyAdvRefs) || err == nil && adv.IsEmpty():
		return nil, fmt.Errorf("%w: it is empty", ErrNoRef)
	case err != nil:
		return nil, protocolError(err)
	}
	if format := adv.Capabilities.Get("object-format"); len(format) > 0 && format[0] != "sha1" {
		return nil, fmt.Errorf("%w: its objects are named by %.20q, not by sha1", ErrProtocol, format[0])
	}
	return adv, nil
}

// protocolError keeps errors of the network, and calls all others the remote's.
func protocolError(err error) error {
	var line *pktline.ErrorLine
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled), errors.Is(err, fetch.ErrTooLarge):
		return err
	case errors.As(err, &line) && strings.Contains(line.Text, "not our ref"):
		return fmt.Errorf("%w: %.200q", ErrNoRef, line.Text)
	}
	return fmt.Errorf("%w: %.300s", ErrProtocol, strings.ToValidUTF8(err.Error(), "?"))
}

// A request is what is asked for.
type request struct {
	wants, haves, shallows []plumbing.Hash
	depth                  int // commits; 0: all
}

// encode writes a request as the server with these abilities understands it,
// and says how its answer comes.
func (q *request) encode(server *capability.List) ([]byte, sideband.Type, error) {
	var b bytes.Buffer
	message := packp.NewUploadPackRequest()
	message.Wants, message.Haves, message.Shallows = q.wants, q.haves, q.shallows
	message.Depth = packp.DepthCommits(q.depth)
	channel := sideband.Type(-1)
	for _, wish := range []capability.Capability{capability.ThinPack, capability.OFSDelta, capability.NoProgress, capability.Sideband64k, capability.Sideband} {
		switch {
		case !server.Supports(wish), wish == capability.Sideband && channel == sideband.Sideband64k, wish == capability.ThinPack && len(q.haves) == 0:
			continue
		}
		if err := message.Capabilities.Set(wish); err != nil {
			return nil, channel, err
		}
		switch wish {
		case capability.Sideband64k:
			channel = sideband.Sideband64k
		case capability.Sideband:
			channel = sideband.Sideband
		}
	}
	if server.Supports(capability.Agent) {
		if err := message.Capabilities.Set(capability.Agent, "uzpif-oi"); err != nil {
			return nil, channel, err
		}
	}
	if err := message.UploadRequest.Encode(&b); err != nil {
		return nil, channel, err
	}
	// Without a flush behind the haves, the server answers with one line.
	if err := message.UploadHaves.Encode(&b, false); err != nil {
		return nil, channel, err
	}
	if err := pktline.NewEncoder(&b).EncodeString("done\n"); err != nil {
		return nil, channel, err
	}
	return b.Bytes(), channel, nil
}

// An answer is what stands before a pack, and the pack.
type answer struct {
	shallow, unshallow []plumbing.Hash
	pack               io.Reader
}

// readAnswer reads up to where the pack begins. With cut, the request asked for
// a depth, and the commits come first at which the history is cut off.
func readAnswer(r io.Reader, cut bool, channel sideband.Type) (*answer, error) {
	buffered := bufio.NewReader(r)
	lines := pktline.NewScanner(buffered)
	a := &answer{}
	for n := 0; cut; n++ {
		if !lines.Scan() {
			return nil, endOfLines(lines)
		}
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			break
		}
		kind, hash, _ := strings.Cut(string(line), " ")
		id, err := ParseID(hash)
		switch {
		case err != nil || n >= maxShallow:
			return nil, fmt.Errorf("%w: %.80q in place of a shallow commit, or more than %d of them", ErrProtocol, line, maxShallow)
		case kind == "shallow":
			a.shallow = append(a.shallow, plumbing.Hash(id))
		case kind == "unshallow":
			a.unshallow = append(a.unshallow, plumbing.Hash(id))
		default:
			return nil, fmt.Errorf("%w: %.80q in place of a shallow commit", ErrProtocol, line)
		}
	}
	for n := 0; ; n++ {
		if !lines.Scan() {
			return nil, endOfLines(lines)
		}
		line := string(lines.Bytes())
		if n >= maxAcks || !strings.HasPrefix(line, "ACK ") && strings.TrimSpace(line) != "NAK" {
			return nil, fmt.Errorf("%w: %.80q in place of ACK or NAK", ErrProtocol, line)
		}
		// Some servers send the line twice.
		ahead, err := buffered.Peek(7)
		if err != nil || string(ahead[4:]) != "ACK" && string(ahead[4:]) != "NAK" {
			break
		}
	}
	a.pack = buffered
	if channel >= 0 {
		a.pack = sideband.NewDemuxer(channel, buffered)
	}
	return a, nil
}

func endOfLines(lines *pktline.Scanner) error {
	if err := lines.Err(); err != nil {
		return protocolError(err)
	}
	return fmt.Errorf("%w: the answer ends too early", ErrProtocol)
}

// A webSession speaks the smart protocol over http.
type webSession struct {
	client *Client
	base   string // behind redirects, once there has been an answer
}

const service = "git-upload-pack"

func (s *webSession) advertised(ctx context.Context) (*packp.AdvRefs, error) {
	const where = "/info/refs?service=" + service
	r, err := s.client.web.Get(ctx, strings.TrimSuffix(s.base, "/")+where, fetch.Conditions{NoCache: true})
	if err != nil {
		return nil, webError(err)
	}
	defer r.Body.Close()
	base, ok := strings.CutSuffix(r.URL, where)
	if !ok {
		return nil, fmt.Errorf("%w: %w: to %.200q, which is no repository", ErrProtocol, fetch.ErrRedirect, r.URL)
	}
	if got := r.Header.Get("Content-Type"); got != "application/x-"+service+"-advertisement" {
		return nil, fmt.Errorf("%w: its type is %.80q; only the smart protocol is spoken", ErrProtocol, got)
	}
	s.base = base
	return readAdvertised(r.Body)
}

func (s *webSession) ask(ctx context.Context, request []byte) (io.ReadCloser, error) {
	r, err := s.client.web.Post(ctx, s.base+"/"+service, fetch.Content{
		Type: "application/x-" + service + "-request", Accept: "application/x-" + service + "-result", Body: request,
	})
	if err != nil {
		return nil, webError(err)
	}
	return r.Body, nil
}

func (s *webSession) close() {}

// webError gives names to what servers of git mean by a status. What stands for
// a repository that one may not see is 404 as well as 401.
func webError(err error) error {
	var status *fetch.StatusError
	if errors.As(err, &status) {
		switch status.Code {
		case http.StatusUnauthorized, http.StatusForbidden:
			return fmt.Errorf("%w: %w", ErrAuth, err)
		case http.StatusNotFound, http.StatusGone:
			return fmt.Errorf("%w: %w", ErrNoRef, err)
		}
	}
	return err
}
