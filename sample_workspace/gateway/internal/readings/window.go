// Package readings holds recent readings in memory and tells subscribers about new ones.
package readings

import (
	"sort"
	"sync"
	"time"
)

// Reading is one measured value as it travels over HTTP.
type Reading struct {
	Station  string    `json:"station"`
	At       time.Time `json:"at"`
	Quantity string    `json:"quantity"`
	Value    float64   `json:"value"`
	Quality  string    `json:"quality"`
}

// Window keeps the readings of every station that are younger than a limit.
type Window struct {
	keep time.Duration

	mu          sync.RWMutex
	byStation   map[string][]Reading
	subscribers map[chan Reading]struct{}
}

// NewWindow returns an empty window that keeps readings for the given time.
func NewWindow(keep time.Duration) *Window {
	return &Window{
		keep:        keep,
		byStation:   make(map[string][]Reading),
		subscribers: make(map[chan Reading]struct{}),
	}
}

// Add stores a reading, forgets what is too old and tells every subscriber.
func (w *Window) Add(reading Reading) {
	w.mu.Lock()
	defer w.mu.Unlock()

	series := append(w.byStation[reading.Station], reading)
	sort.SliceStable(series, func(i, j int) bool { return series[i].At.Before(series[j].At) })
	oldest := series[len(series)-1].At.Add(-w.keep)
	first := sort.Search(len(series), func(i int) bool { return !series[i].At.Before(oldest) })
	w.byStation[reading.Station] = series[first:]

	for subscriber := range w.subscribers {
		select {
		case subscriber <- reading:
		default: // A slow browser misses an update; it must not slow down the others.
		}
	}
}

// Stations returns the ids of all known stations in order.
func (w *Window) Stations() []string {
	w.mu.RLock()
	defer w.mu.RUnlock()

	ids := make([]string, 0, len(w.byStation))
	for id := range w.byStation {
		ids = append(ids, id)
	}
	sort.Strings(ids)
	return ids
}

// Since returns a copy of the readings of a station that are not older than the given time.
func (w *Window) Since(station string, from time.Time) []Reading {
	w.mu.RLock()
	defer w.mu.RUnlock()

	recent := []Reading{}
	for _, reading := range w.byStation[station] {
		if !reading.At.Before(from) {
			recent = append(recent, reading)
		}
	}
	return recent
}

// Subscribe returns a channel of new readings and a function that ends the subscription.
func (w *Window) Subscribe() (<-chan Reading, func()) {
	channel := make(chan Reading, 64)
	w.mu.Lock()
	w.subscribers[channel] = struct{}{}
	w.mu.Unlock()

	return channel, func() {
		w.mu.Lock()
		delete(w.subscribers, channel)
		w.mu.Unlock()
	}
}
