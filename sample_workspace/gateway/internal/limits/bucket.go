// Package limits keeps one client from drowning the others.
package limits

import (
	"math"
	"sync"
	"time"
)

// Bucket is a token bucket: it refills at a steady rate up to a fixed size.
type Bucket struct {
	rate float64
	size float64
	now  func() time.Time

	mu     sync.Mutex
	tokens float64
	last   time.Time
}

// NewBucket returns a full bucket; the clock is passed in so that tests can stand still.
func NewBucket(perSecond, size float64, now func() time.Time) *Bucket {
	return &Bucket{rate: perSecond, size: size, now: now, tokens: size, last: now()}
}

// Take removes one token and reports whether there was one.
func (b *Bucket) Take() bool {
	b.mu.Lock()
	defer b.mu.Unlock()

	now := b.now()
	b.tokens = math.Min(b.size, b.tokens+now.Sub(b.last).Seconds()*b.rate)
	b.last = now
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}
