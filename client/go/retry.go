package accelerd

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
)

const (
	// firstWait and maxWait bound the first backoff and any.
	firstWait = 50 * time.Millisecond
	maxWait   = 2 * time.Second
	// withoutDeadline is the time for which a call without a deadline is retried, from its first failure.
	withoutDeadline = time.Minute

	retriesPerCall   = 0.2
	retriesPerSecond = 1.0
	// retryReserve is the balance of a new client, and the most that is earned with time.
	retryReserve = 10.0
	maxRetries   = 1000.0
)

// retryBudget is the retries of a client, so that clients of a failing daemon do not multiply its load.
//
// Each call earns a fifth of a retry. Unlike in Finagle's RetryBudget, a retry without a token is not refused: it waits for the tokens that
// are earned with time, so that a call survives as long as its deadline permits.
type retryBudget struct {
	mutex sync.Mutex
	// balance is negative if retries wait.
	balance float64
	updated time.Time
}

func newRetryBudget(now time.Time) *retryBudget {
	return &retryBudget{balance: retryReserve, updated: now}
}

// deposit earns the retries of a call.
func (b *retryBudget) deposit() {
	b.add(retriesPerCall)
}

// putBack returns a retry that is not made.
func (b *retryBudget) putBack() {
	b.add(1)
}

func (b *retryBudget) add(retries float64) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.balance = min(b.balance+retries, maxRetries)
}

// withdraw takes a retry. It returns the time until it may be made.
func (b *retryBudget) withdraw(now time.Time) time.Duration {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	passed := now.Sub(b.updated).Seconds()
	b.updated = now
	if b.balance < retryReserve {
		b.balance = min(b.balance+passed*retriesPerSecond, retryReserve)
	}
	b.balance--
	return time.Duration(max(-b.balance/retriesPerSecond, 0) * float64(time.Second))
}

// retryPolicy is what the attempts of all calls of a client share.
type retryPolicy struct {
	budget *retryBudget
	// maxAttempts is 0 if only the deadline bounds attempts.
	maxAttempts int
	now         func() time.Time
	// random returns a number in [0, 1).
	random func() float64
}

func newRetryPolicy(maxAttempts int) *retryPolicy {
	return &retryPolicy{
		budget:      newRetryBudget(time.Now()),
		maxAttempts: maxAttempts,
		now:         time.Now,
		random:      rand.Float64,
	}
}

// attempts are those of one call.
type attempts struct {
	policy       *retryPolicy
	isIdempotent bool
	// deadline is zero if there is none.
	deadline     time.Time
	failed       int
	failingSince time.Time
}

func (p *retryPolicy) attempts(ctx context.Context, isIdempotent bool) *attempts {
	p.budget.deposit()
	deadline, _ := ctx.Deadline()
	return &attempts{policy: p, isIdempotent: isIdempotent, deadline: deadline}
}

// progressed counts anew, after a response of a stream.
func (a *attempts) progressed() {
	a.failed, a.failingSince = 0, time.Time{}
}

// wait returns the time until the next attempt; false if the failure is final.
//
// The backoff is exponential with full jitter, after the delay of RetryInfo. Attempts that reach no daemon do not count in the budget.
func (a *attempts) wait(problem *Error) (time.Duration, bool) {
	now := a.policy.now()
	if a.failed == 0 {
		a.failingSince = now
	}
	a.failed++
	end := a.deadline
	if end.IsZero() {
		end = a.failingSince.Add(withoutDeadline)
	}
	isLast := a.policy.maxAttempts > 0 && a.failed >= a.policy.maxAttempts
	if isLast || !a.mayRepeat(problem) {
		return 0, false
	}
	bound := min(firstWait<<min(a.failed-1, 20), maxWait)
	wait := time.Duration(a.policy.random() * float64(bound))
	if problem.RetryDelay != nil {
		wait += *problem.RetryDelay
	}
	if !now.Add(wait).Before(end) {
		return 0, false
	}
	if problem.isUnsent {
		return wait, true
	}
	wait = max(wait, a.policy.budget.withdraw(now))
	if !now.Add(wait).Before(end) {
		a.policy.budget.putBack()
		return 0, false
	}
	return wait, true
}

// mayRepeat returns true for UNAVAILABLE, which includes broken connections, and for RESOURCE_EXHAUSTED with RetryInfo. A call that is not
// idempotent is repeated only if the daemon did not execute it.
func (a *attempts) mayRepeat(problem *Error) bool {
	isHinted := problem.RetryDelay != nil
	switch {
	case problem.isTooLarge():
		return false
	case problem.Code == codes.Unavailable:
		return a.isIdempotent || isHinted || problem.isUnsent
	default:
		return problem.Code == codes.ResourceExhausted && isHinted
	}
}

// sleep waits. It returns the error of the context if that ends first.
func sleep(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return contextError(ctx)
	}
}
