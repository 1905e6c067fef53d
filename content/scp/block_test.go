package scp

import (
	"reflect"
	"strings"
	"testing"
)

func TestTheTenTypesWithTheirOptionalMembers(t *testing.T) {
	n, m := int64(1920), int64(1080)
	for _, tt := range []struct {
		file string
		want Block
		text string
	}{
		{"text", &Text{"Paragraph content"}, "Paragraph content"},
		{"heading", &Heading{1, "Heading text"}, "Heading text"},
		{"link", &Link{"https://example.com", "Link text", []string{"nofollow", "sponsored"}}, "Link text"},
		{"image", &Image{"https://example.com/image.jpg", "Alt text"}, "Alt text"},
		{"list", &List{false, []string{"Item 1", "Item 2"}}, "Item 1\nItem 2"},
		{"code", &Code{"python", "print('Hello')"}, "print('Hello')"},
		{"table", &Table{[][]string{{"Header 1", "Header 2"}, {"Cell 1", "Cell 2"}}}, "Header 1\tHeader 2\nCell 1\tCell 2"},
		{"quote", &Quote{"Quote text", "Source"}, "Quote text\n\nSource"},
		{"video", &Video{Media: Media{
			Name: "Video Title", URL: URLs{Many: []MediaURL{
				{"https://example.com/video.mp4", "video/mp4", ""}, {"https://example.com/video.webm", "video/webm", ""},
				{"https://youtube.com/watch?v=xyz123", "text/html", "alternate"},
			}},
			Duration: "PT5M20S", Icon: &Icon{"Image", "https://example.com/thumbnail.jpg"}, Summary: "Video description",
			Chapters: []Chapter{{0, "Introduction"}, {60, "Main Content"}}, Transcript: "Full text transcript of video content...",
		}, Width: &n, Height: &m, Captions: []Caption{
			{"en", "https://example.com/captions-en.vtt", "English"}, {"es", "https://example.com/captions-es.vtt", "Español"},
		}}, "Video Title\n\nVideo description\n\nIntroduction\nMain Content\n\nFull text transcript of video content..."},
		{"audio", &Audio{Media: Media{
			Name: "Episode 42: Web Standards", URL: URLs{Many: []MediaURL{
				{"https://example.com/podcast.mp3", "audio/mpeg", ""}, {"https://example.com/podcast.ogg", "audio/ogg", ""},
			}},
			Duration: "PT1H", Icon: &Icon{"Image", "https://example.com/cover.jpg"}, Summary: "Discussion about web protocols",
			Chapters: []Chapter{{0, "Introduction"}, {300, "Main Discussion"}}, Transcript: "Full text transcript of audio content...",
		}, AttributedTo: "Tech Podcast", PartOf: "Season 3"}, "Episode 42: Web Standards\n\nDiscussion about web protocols\n\n" +
			"Introduction\nMain Discussion\n\nFull text transcript of audio content...\n\nTech Podcast\n\nSeason 3"},
	} {
		got := readBlock(seed(t, "block-"+tt.file+".json"))
		if !reflect.DeepEqual(got, tt.want) || got.text() != tt.text {
			t.Errorf("%s: %+v, %q", tt.file, got, got.text())
		}
	}
}

func TestBlocksAsPeopleWriteThem(t *testing.T) {
	for _, tt := range []struct {
		name, block string
		want        string // what it is written as; "" for a block that stays as it was
		why         string // part of why it is unknown
	}{
		{"level 0", `{"type":"heading","level":0,"text":"x"}`, `{"type":"heading","level":1,"text":"x"}`, ""},
		{"level -3", `{"type":"heading","level":-3,"text":"x"}`, `{"type":"heading","level":1,"text":"x"}`, ""},
		{"level 9", `{"type":"heading","level":9,"text":"x"}`, `{"type":"heading","level":6,"text":"x"}`, ""},
		{"level 1e99", `{"type":"heading","level":1e99,"text":"x"}`, `{"type":"heading","level":6,"text":"x"}`, ""},
		{"level 2.0", `{"type":"heading","level":2.0,"text":"x"}`, `{"type":"heading","level":2,"text":"x"}`, ""},
		{"level 2.5", `{"type":"heading","level":2.5,"text":"x"}`, "", "wrong kind"},
		{"level as a string", `{"type":"heading","level":"2","text":"x"}`, "", "wrong kind"},
		{"no level", `{"type":"heading","text":"x"}`, "", "without level"},
		{"no text", `{"type":"text"}`, "", "without text"},
		{"a text that is null", `{"type":"text","text":null}`, "", "without text"},
		{"rel as a string", `{"type":"link","url":"https://example.com/","text":"x","rel":"nofollow"}`, "", "wrong kind"},
		{"no alt", `{"type":"image","url":"https://example.com/"}`, "", "without alt"},
		{"numbers in cells", `{"type":"table","rows":[[1,2]]}`, "", "wrong kind"},
		{"ragged rows", `{"type":"table","rows":[["a"],["b","c"],[]]}`, `{"type":"table","rows":[["a"],["b","c"],[]]}`, ""},
		{"an unknown type", `{"type":"poll"}`, "", "unknown type"},
		{"a type that is no string", `{"type":7}`, "", "no object with a type"},
		{"a member twice", `{"type":"text","text":"a","text":"b"}`, "", "no object with a type"},
		{"members that nobody knows", `{"x":[{}],"type":"text","text":"x","level":"?"}`, `{"type":"text","text":"x"}`, ""},
		{"a video with one URL", `{"type":"video","name":"","url":"https://example.com/v"}`, `{"type":"video","name":"","url":"https://example.com/v"}`, ""},
		{"a video with no URL of several", `{"type":"video","name":"n","url":[]}`, "", "wrong kind"},
		{"a URL without a media type", `{"type":"video","name":"n","url":[{"href":"https://example.com/v"}]}`, "", "wrong kind"},
		{"an artist as an object", `{"type":"audio","name":"n","url":"https://example.com/a","attributedTo":{"type":"Person","name":"P"}}`,
			`{"type":"audio","name":"n","url":"https://example.com/a","attributedTo":"P"}`, ""},
		{"a duration of days", `{"type":"audio","name":"n","url":"https://example.com/a","duration":"P1D"}`, `{"type":"audio","name":"n","url":"https://example.com/a"}`, ""},
		{"half a chapter", `{"type":"audio","name":"n","url":"https://example.com/a","chapters":[{"time":1.5,"title":"x"}]}`, "", "wrong kind"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, err := ParsePage([]byte(strings.Replace(good("a"), `{"type":"text","text":"Words"}`, tt.block, 1)))
			if err != nil {
				t.Fatal(err)
			}
			blocks, _ := p.Blocks()
			u, unknown := blocks[0].(*Unknown)
			if unknown != (tt.want == "") || unknown && !strings.Contains(u.Why, tt.why) {
				t.Fatalf("%#v", blocks[0])
			}
			got, err := appendBlock(nil, blocks[0])
			want := tt.want
			if unknown {
				want = tt.block
			}
			if err != nil || string(got) != want {
				t.Errorf("written as %s (%v), want %s", got, err, want)
			}
		})
	}
}

func TestNoURLOfABlockRunsAnything(t *testing.T) {
	for _, bad := range []string{
		"javascript:alert(1)", "JaVaScRiPt:alert(1)", " javascript:alert(1)", `java\u0009script:alert(1)`, "data:text/html,x", "vbscript:x", "ftp://example.com/", "//example.com/",
	} {
		for _, block := range []string{
			`{"type":"link","url":"%","text":"x"}`, `{"type":"image","url":"%","alt":""}`, `{"type":"video","name":"","url":"%"}`,
			`{"type":"audio","name":"","url":[{"href":"%","mediaType":"audio/mpeg"}]}`,
			`{"type":"video","name":"","url":"https://example.com/","icon":{"url":"%"},"captions":[{"language":"en","url":"%","label":""}]}`,
		} {
			line := strings.Replace(good("a"), `{"type":"text","text":"Words"}`, strings.ReplaceAll(block, "%", bad), 1)
			p, err := ParsePage([]byte(line))
			if err != nil {
				t.Fatal(err)
			}
			blocks, warnings := p.Blocks()
			out := ""
			for v := range reachable(reflect.ValueOf(blocks)) {
				out += v
			}
			if strings.Contains(strings.ToLower(out), "script") || strings.Contains(out, "data:") || strings.Contains(out, "//example.com/x") || len(warnings) == 0 {
				t.Errorf("%s in %s is handed out as %q, warnings %q", bad, block, out, warnings)
			}
		}
	}
}

// reachable yields the strings in a value.
func reachable(v reflect.Value) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		switch v.Kind() {
		case reflect.String:
			yield(v.String())
		case reflect.Interface, reflect.Pointer:
			if !v.IsNil() {
				reachable(v.Elem())(yield)
			}
		case reflect.Slice:
			for i := range v.Len() {
				reachable(v.Index(i))(yield)
			}
		case reflect.Struct:
			for i := range v.NumField() {
				reachable(v.Field(i))(yield)
			}
		}
	}
}

func TestCheckIsWhatAReceiverApplies(t *testing.T) {
	const url = "https://example.com/a"
	for _, tt := range []struct {
		name, payload string
		ok            bool
	}{
		{"a page line", good("a"), true},
		{"its url in another spelling", strings.Replace(good("a"), "https://example.com/a", `HTTPS:\/\/Example.com:443/x/../a#b`, 1), true},
		{"blocks that nobody knows", strings.Replace(good("a"), `[{`, `[{"type":"poll"},{`, 1), true},
		{"another page's line", good("b"), false},
		{"a line feed behind it", good("a") + "\n", false},
		{"a space before it", " " + good("a"), false},
		{"two lines", good("a") + "\n" + good("a"), false},
		{"metadata", goodMeta, false},
		{"no title", strings.Replace(good("a"), "title", "t", 1), false},
		{"two urls", strings.Replace(good("a"), `"title"`, `"url":"https://example.com/b","title"`, 1), false},
		{"nothing", "", false},
	} {
		if err := Check([]byte(tt.payload), url); (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

func TestTheFingerprintLeavesTimesOut(t *testing.T) {
	page := func(line string) Page {
		p, err := ParsePage([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	a := page(good("a"))
	later := page(strings.Replace(good("a"), "2025-06-01", "2025-06-02", 1))
	other := page(strings.Replace(good("a"), "Words", "words", 1))
	published := page(strings.Replace(good("a"), `"title"`, `"published":"2025-01-01T00:00:00Z","title"`, 1))
	if a.Fingerprint() != later.Fingerprint() || a.Fingerprint() != published.Fingerprint() || a.Digest() == later.Digest() {
		t.Error("a page with another time has another fingerprint")
	}
	if a.Fingerprint() == other.Fingerprint() {
		t.Error("a page with other words has the same fingerprint")
	}
}
