package agent

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

const (
	defaultServer    = "http://localhost:8080"
	defaultVersion   = "1.0.0"
	defaultRetryFor  = 2 * time.Second
	defaultHeartbeat = 2 * time.Second
	// The control plane gives up on the work of an agent that is gone for 30 s.
	defaultDrain = 25 * time.Second
)

// Agent is the way to a control plane, and with capabilities of its own an agent that others can find. It may be used by
// many goroutines at once.
type Agent struct {
	client   *client
	log      *slog.Logger
	identity identity
	manner   manner
	work     *work

	mu           sync.Mutex
	capabilities []*capability
	problems     []error
}

// identity is what an agent is called, and where it can be called.
type identity struct {
	id, version, description string
	tags                     []string
	instance                 string
	listen, publicURL        string
}

// manner is how an agent lives.
type manner struct {
	heartbeat time.Duration
	lease     bool
	drain     time.Duration
	patience  time.Duration
}

// Option is a setting of an [Agent].
type Option func(*settings)

type settings struct {
	server, key string
	http        *http.Client
	retryFor    time.Duration
	log         *slog.Logger
	identity    identity
	manner      manner
}

// NewAgent makes an [Agent]. Without options it calls the control plane named by AGENTFIELD_SERVER, or else
// http://localhost:8080, with the key in AGENTFIELD_API_KEY, or else with none. Nothing is sent before the first call; a
// server address that cannot be one is said by the first call.
func NewAgent(options ...Option) *Agent {
	chosen := settings{
		server:   os.Getenv("AGENTFIELD_SERVER"),
		key:      os.Getenv("AGENTFIELD_API_KEY"),
		http:     ownClient(),
		retryFor: defaultRetryFor,
		log:      slog.Default(),
		identity: identity{version: defaultVersion, instance: randomHex(8), publicURL: os.Getenv("AGENT_CALLBACK_URL")},
		manner:   manner{heartbeat: defaultHeartbeat, drain: defaultDrain, patience: skillPatience},
	}
	for _, option := range options {
		if option != nil {
			option(&chosen)
		}
	}
	if strings.TrimSpace(chosen.server) == "" {
		chosen.server = defaultServer
	}
	return &Agent{
		client:   newClient(chosen.server, chosen.key, chosen.http, chosen.retryFor),
		log:      chosen.log,
		identity: chosen.identity,
		manner:   chosen.manner,
		work:     newWork(),
	}
}

// WithServer sets the address of the control plane.
func WithServer(url string) Option { return func(s *settings) { s.server = url } }

// WithAPIKey sets the key that every request carries. It is in no log, error or String.
func WithAPIKey(key string) Option { return func(s *settings) { s.key = key } }

// WithHTTPClient sets the client that requests are sent with. Redirects are never followed, whatever it says.
func WithHTTPClient(client *http.Client) Option {
	return func(s *settings) {
		if client != nil {
			s.http = client
		}
	}
}

// WithRetryFor sets for how long a request that may be sent twice is sent again while the control plane does not answer;
// 2 s if not said, 0 for never.
func WithRetryFor(limit time.Duration) Option { return func(s *settings) { s.retryFor = limit } }

// WithLogger sets where an agent that serves says what happens to it; [slog.Default] if not said.
func WithLogger(log *slog.Logger) Option {
	return func(s *settings) {
		if log != nil {
			s.log = log
		}
	}
}

// WithID sets the id under which others find this agent. [Agent.Serve] needs one.
func WithID(id string) Option { return func(s *settings) { s.identity.id = id } }

// WithVersion sets the version that callers are shown; 1.0.0 if not said.
func WithVersion(version string) Option { return func(s *settings) { s.identity.version = version } }

// WithAbout sets what is said of the agent as a whole.
func WithAbout(description string, tags ...string) Option {
	return func(s *settings) { s.identity.description, s.identity.tags = description, tags }
}

// WithListen sets the address to serve on, such as "127.0.0.1:9001" or ":9001". If not said, it is the port in PORT or a
// free one: on this machine only when the control plane is on it too, else on all of its addresses.
func WithListen(address string) Option { return func(s *settings) { s.identity.listen = address } }

// WithPublicURL sets where the control plane reaches this agent, if that is not the address it serves on. The
// environment says it with AGENT_CALLBACK_URL.
func WithPublicURL(url string) Option { return func(s *settings) { s.identity.publicURL = url } }

// WithHeartbeat sets how often a serving agent shows that it lives; every 2 s if not said, and never more often than
// every 100 ms. It counts as gone after five times as long.
func WithHeartbeat(every time.Duration) Option {
	return func(s *settings) { s.manner.heartbeat = max(every, 100*time.Millisecond) }
}

// WithLease has a serving agent renew a lease of some minutes in the place of heartbeats: less traffic, and its sudden
// death is noticed later.
func WithLease() Option { return func(s *settings) { s.manner.lease = true } }

// WithDrain sets how long an agent that is to end may take for what it is working on; 25 s if not said. The control plane
// gives up on the work of an agent that has been gone for 30 s.
func WithDrain(limit time.Duration) Option { return func(s *settings) { s.manner.drain = limit } }

// ID returns the id of this agent, or "" for one that only calls others.
func (a *Agent) ID() string { return a.identity.id }

// String says which control plane this is the way to, and as whom; never the key.
func (a *Agent) String() string {
	return fmt.Sprintf("agent %q at %s", a.identity.id, a.client.shown())
}

// GoString is String, so that no way of printing shows more.
func (a *Agent) GoString() string { return a.String() }

// ownClient keeps as many connections open as an agent is at work on calls.
func ownClient() *http.Client {
	usual, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return &http.Client{}
	}
	own := usual.Clone()
	own.MaxIdleConnsPerHost = 64
	return &http.Client{Transport: own}
}

func randomHex(bytes int) string {
	text := make([]byte, bytes)
	if _, err := rand.Read(text); err != nil {
		panic(err) // no randomness, no program: as crypto/rand itself does since Go 1.24
	}
	return hex.EncodeToString(text)
}
