package limits

import (
	"testing"
	"time"
)

// stoppedClock is a clock that moves only when told to.
type stoppedClock struct{ at time.Time }

func (c *stoppedClock) now() time.Time { return c.at }

func TestBucketRefillsWithTime(t *testing.T) {
	clock := &stoppedClock{at: time.Unix(0, 0)}
	bucket := NewBucket(2, 2, clock.now)

	for range 2 {
		if !bucket.Take() {
			t.Fatal("a full bucket refused a token")
		}
	}
	if bucket.Take() {
		t.Fatal("an empty bucket gave a token")
	}
	clock.at = clock.at.Add(500 * time.Millisecond)
	if !bucket.Take() {
		t.Fatal("half a second at two per second is one token")
	}
}
