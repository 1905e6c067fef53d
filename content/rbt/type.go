package rbt

import (
	"fmt"
	"mime"
	"net/http"
	"strings"
)

// CheckType returns an error if octets are plainly not of the media type that
// is claimed (15.4): text that begins as a picture or an archive does, and a
// picture, sound or film that begins as text or HTML does. Between two kinds of
// text it does not judge.
func CheckType(mediaType string, data []byte) error {
	claimed, _, err := mime.ParseMediaType(mediaType)
	if err != nil {
		return fmt.Errorf("%.80q is no media type", mediaType)
	}
	found, _, _ := strings.Cut(http.DetectContentType(data), ";")
	isText := strings.HasPrefix(found, "text/")
	kind, _, _ := strings.Cut(claimed, "/")
	switch {
	case len(data) == 0 || found == "application/octet-stream" && kind != "text":
		return nil
	case (kind == "text" || strings.HasSuffix(claimed, "json") || strings.HasSuffix(claimed, "xml") && claimed != "image/svg+xml") && !isText,
		(kind == "image" || kind == "audio" || kind == "video") && isText && claimed != "image/svg+xml":
		return fmt.Errorf("it is called %s, and is %s", claimed, found)
	}
	return nil
}
