package accelerd

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	pb "github.com/accelerd/accelerd/client/go/accelerd/v1"
)

// testPolicy has a clock that stands still until the test moves it, and a random number of the test's choice.
func testPolicy(random float64) (*retryPolicy, *time.Time) {
	now := time.Unix(1_000_000, 0)
	policy := &retryPolicy{
		budget: newRetryBudget(now),
		now:    func() time.Time { return now },
		random: func() float64 { return random },
	}
	return policy, &now
}

func (p *retryPolicy) until(deadline time.Time, isIdempotent bool) *attempts {
	tries := p.attempts(context.Background(), isIdempotent)
	tries.deadline = deadline
	return tries
}

func hinted(code codes.Code, delay time.Duration) *Error {
	return &Error{Code: code, RetryDelay: &delay}
}

func TestOnlyUnavailableAndHintedExhaustionAreRetried(t *testing.T) {
	for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
		policy, now := testPolicy(0.5)
		_, isRetried := policy.until(now.Add(time.Minute), true).wait(&Error{Code: code})
		if isRetried != (code == codes.Unavailable) {
			t.Errorf("%v: retried: %v", code, isRetried)
		}
		_, isRetried = policy.until(now.Add(time.Minute), true).wait(hinted(code, time.Millisecond))
		if isRetried != (code == codes.Unavailable || code == codes.ResourceExhausted) {
			t.Errorf("%v with RetryInfo: retried: %v", code, isRetried)
		}
	}
}

func TestACallThatMustNotRunTwiceIsRepeatedOnlyIfItDidNotRun(t *testing.T) {
	policy, now := testPolicy(0)
	tries := policy.until(now.Add(time.Minute), false)
	if _, isRetried := tries.wait(hinted(codes.Unavailable, time.Millisecond)); !isRetried {
		t.Error("the daemon says that it did not run")
	}
	if _, isRetried := tries.wait(&Error{Code: codes.Unavailable, isUnsent: true}); !isRetried {
		t.Error("there was no connection")
	}
	if _, isRetried := tries.wait(&Error{Code: codes.Unavailable}); isRetried {
		t.Error("it may have run")
	}
}

func TestAMessageThatIsTooLargeIsNotSentAgain(t *testing.T) {
	policy, now := testPolicy(0)
	delay := time.Millisecond
	problem := &Error{Code: codes.ResourceExhausted, Reason: "MESSAGE_TOO_LARGE", RetryDelay: &delay}
	if _, isRetried := policy.until(now.Add(time.Minute), true).wait(problem); isRetried {
		t.Error("it is retried")
	}
}

func TestBackoffsDoubleUpToTheirBoundAfterTheHint(t *testing.T) {
	for _, random := range []float64{0, 0.5, 0.999} {
		policy, now := testPolicy(random)
		tries := policy.until(now.Add(time.Hour), true)
		hint := 300 * time.Millisecond
		for at, bound := range []int{50, 100, 200, 400, 800, 1600, 2000, 2000} {
			expected := hint + time.Duration(random*float64(bound)*float64(time.Millisecond))
			if wait, _ := tries.wait(hinted(codes.Unavailable, hint)); wait != expected {
				t.Errorf("random %v, attempt %d: waits %v, expected %v", random, at, wait, expected)
			}
		}
	}
}

// endured returns the time for which a call is retried, and its attempts, if all fail.
func endured(tries *attempts, now *time.Time, problem *Error) (time.Duration, int) {
	start := *now
	for {
		wait, ok := tries.wait(problem)
		if !ok {
			return now.Sub(start), tries.failed
		}
		*now = now.Add(wait)
	}
}

func TestCallsAreRetriedUntilTheirDeadlineAndWithoutOneForAMinute(t *testing.T) {
	refused := &Error{Code: codes.Unavailable, isUnsent: true}
	policy, now := testPolicy(0.5)
	passed, count := endured(policy.until(now.Add(300*time.Second), true), now, refused)
	if passed < 297*time.Second || passed >= 300*time.Second || count < 250 {
		t.Errorf("%d attempts in %v", count, passed)
	}
	passed, count = endured(policy.until(time.Time{}, true), now, refused)
	if passed < 57*time.Second || passed >= 60*time.Second || count < 50 {
		t.Errorf("without a deadline: %d attempts in %v", count, passed)
	}
}

func TestAFailingDaemonGetsFewRetriesOfManyCalls(t *testing.T) {
	policy, now := testPolicy(0)
	retries := 0
	for range 1000 {
		tries := policy.until(now.Add(2*time.Second), true)
		for {
			if _, isRetried := tries.wait(&Error{Code: codes.Unavailable}); !isRetried {
				break
			}
			retries++
		}
	}
	// A fifth of the calls, the reserve, and what is earned until the deadline.
	if retries < 200 || retries > 212 {
		t.Errorf("%d retries", retries)
	}
}

func TestRetriesWithoutABudgetWait(t *testing.T) {
	budget := newRetryBudget(time.Unix(0, 0))
	now := time.Unix(0, 0)
	for range int(retryReserve) {
		if wait := budget.withdraw(now); wait != 0 {
			t.Errorf("a retry of the reserve waits %v", wait)
		}
	}
	if wait := budget.withdraw(now); wait != time.Second {
		t.Errorf("a retry beyond the reserve waits %v", wait)
	}
	budget.putBack()
	if wait := budget.withdraw(now.Add(time.Second)); wait != 0 {
		t.Errorf("a retry that was earned with time waits %v", wait)
	}
}

func TestAttemptsAreBounded(t *testing.T) {
	policy, now := testPolicy(0)
	policy.maxAttempts = 2
	tries := policy.until(now.Add(time.Minute), true)
	if _, isRetried := tries.wait(&Error{Code: codes.Unavailable}); !isRetried {
		t.Error("the first failure is final")
	}
	if _, isRetried := tries.wait(&Error{Code: codes.Unavailable}); isRetried {
		t.Error("the second failure is retried")
	}
}

func TestAStreamThatProgressesStartsToCountAgain(t *testing.T) {
	policy, now := testPolicy(0.999)
	tries := policy.until(time.Time{}, true)
	refused := &Error{Code: codes.Unavailable, isUnsent: true}
	for range 50 {
		if wait, isRetried := tries.wait(refused); !isRetried || wait > firstWait {
			t.Fatalf("waits %v", wait)
		}
		*now = now.Add(30 * time.Second)
		tries.progressed()
	}
}

func TestTheDescriptorSaysWhichMethodsAreIdempotent(t *testing.T) {
	for method, expected := range map[string]bool{
		pb.EmbedService_Embed_FullMethodName:                 true,
		pb.SimilarityService_Upsert_FullMethodName:           true,
		pb.SimilarityService_CreateCollection_FullMethodName: false,
		pb.TensorService_UploadTensor_FullMethodName:         false,
		"/grpc.health.v1.Health/Check":                       false,
	} {
		if isIdempotent(method, nil) != expected {
			t.Errorf("%s: idempotent: %v", method, !expected)
		}
	}
	execute := pb.TensorService_Execute_FullMethodName
	if !isIdempotent(execute, &pb.ExecuteRequest{Outputs: []*pb.TensorOutput{{Name: "y"}}}) {
		t.Error("a graph that keeps nothing may run twice")
	}
	if isIdempotent(execute, &pb.ExecuteRequest{Outputs: []*pb.TensorOutput{{Name: "y", Keep: true}}}) {
		t.Error("a graph that keeps a tensor must not run twice")
	}
}
