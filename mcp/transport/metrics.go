package transport

import (
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics counts calls, requests and refusals. The zero value is ready for use.
type metrics struct {
	once     sync.Once
	registry *prometheus.Registry
	calls    *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	requests *prometheus.CounterVec
	refusals *prometheus.CounterVec
}

func (s *metrics) setUp() {
	s.once.Do(func() {
		s.registry = prometheus.NewRegistry()
		s.calls = prometheus.NewCounterVec(
			prometheus.CounterOpts{
				Name: "sb_mcp_tool_calls_total", Help: "Tool calls by tool and result: ok, or the kind of error.",
			},
			[]string{"tool", "result"},
		)
		s.seconds = prometheus.NewHistogramVec(
			prometheus.HistogramOpts{
				Name: "sb_mcp_tool_call_seconds", Help: "How long tool calls took.",
				Buckets: prometheus.ExponentialBuckets(0.001, 4, 9),
			},
			[]string{"tool"},
		)
		s.requests = prometheus.NewCounterVec(
			prometheus.CounterOpts{Name: "sb_mcp_http_requests_total", Help: "HTTP requests by route, method and status."},
			[]string{"route", "method", "status"},
		)
		s.refusals = prometheus.NewCounterVec(
			prometheus.CounterOpts{Name: "sb_mcp_refused_total", Help: "Requests refused, by reason."}, []string{"reason"},
		)
		s.registry.MustRegister(s.calls, s.seconds, s.requests, s.refusals)
	})
}

func (s *metrics) Called(tool, result string, took time.Duration) {
	s.setUp()
	s.calls.WithLabelValues(tool, result).Inc()
	s.seconds.WithLabelValues(tool).Observe(took.Seconds())
}

func (s *metrics) requested(route, method string, status int) {
	s.setUp()
	switch method {
	case http.MethodGet, http.MethodPost, http.MethodDelete, http.MethodPut, http.MethodHead:
	default:
		method = "other" // clients can invent any number of methods
	}
	s.requests.WithLabelValues(route, method, strconv.Itoa(status)).Inc()
}

func (s *metrics) refused(reason string) {
	s.setUp()
	s.refusals.WithLabelValues(reason).Inc()
}

// metrics serves the metrics to Prometheus.
func (w *Web) metrics() http.Handler {
	s := &w.endpoint.Metrics
	s.setUp()
	gauge := func(name, help string, value func() int) {
		s.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
			return float64(value())
		}))
	}
	gauge("sb_mcp_sessions", "Connected clients.", w.endpoint.Sessions.Count)
	gauge("sb_mcp_running_commands", "Commands whose output the server keeps.", w.endpoint.RunningCommands)
	return promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{})
}
