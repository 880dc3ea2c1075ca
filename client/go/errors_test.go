package accelerd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"
)

func statusError(t *testing.T, code codes.Code, message string, details ...protoadapt.MessageV1) error {
	t.Helper()
	made, err := status.New(code, message).WithDetails(details...)
	if err != nil {
		t.Fatal(err)
	}
	return made.Err()
}

func TestAnErrorHasTheDetailsOfTheStatus(t *testing.T) {
	violation := &errdetails.BadRequest_FieldViolation{Field: "k", Description: "expected 1"}
	failed := statusError(t, codes.NotFound, "absent",
		&errdetails.ErrorInfo{Reason: "DEVICE_LOST", Domain: "accelerd", Metadata: map[string]string{"device": "cuda:0"}},
		&errdetails.RetryInfo{RetryDelay: durationpb.New(7 * time.Millisecond)},
		&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{violation}},
		&errdetails.ResourceInfo{ResourceType: "tensor", ResourceName: "t1"},
	)
	var found *Error
	if !errors.As(fmt.Errorf("wrapped: %w", toError(failed)), &found) {
		t.Fatal("no *Error")
	}
	if found.Code != codes.NotFound || found.Message != "absent" || found.Reason != "DEVICE_LOST" || found.Metadata["device"] != "cuda:0" {
		t.Errorf("%+v", found)
	}
	if *found.RetryDelay != 7*time.Millisecond || found.Field() != "k" || *found.Resource != (Resource{"tensor", "t1"}) {
		t.Errorf("%+v", found)
	}
	if status.Code(found) != codes.NotFound || len(status.Convert(found).Details()) != 4 {
		t.Errorf("status %v", status.Convert(found))
	}
}

func TestTheTextOfAnErrorHasItsCodeAndEscapesControlCharacters(t *testing.T) {
	found := &Error{Code: codes.InvalidArgument, Message: "name: \x1b[2Jgrüße\u202e", hint: "do this"}
	if text := found.Error(); text != `INVALID_ARGUMENT: name: \u001b[2Jgrüße\u202e; do this` {
		t.Errorf("%s", text)
	}
	for code, expected := range map[codes.Code]string{
		codes.Canceled: "CANCELLED", codes.DeadlineExceeded: "DEADLINE_EXCEEDED", codes.Internal: "INTERNAL", codes.DataLoss: "DATA_LOSS",
	} {
		if name := codeName(code); name != expected {
			t.Errorf("%v: %s", code, name)
		}
	}
}

func TestErrorsOfContextsAreRecognised(t *testing.T) {
	if !errors.Is(toError(status.Error(codes.DeadlineExceeded, "late")), context.DeadlineExceeded) {
		t.Error("a deadline")
	}
	if !errors.Is(toError(status.Error(codes.Canceled, "gone")), context.Canceled) {
		t.Error("a cancellation")
	}
	if errors.Is(toError(status.Error(codes.Internal, "defect")), context.Canceled) {
		t.Error("another error")
	}
}

func TestNoErrorAndTheEndOfAStreamStay(t *testing.T) {
	if toError(nil) != nil || toError(io.EOF) != io.EOF {
		t.Error("they are converted")
	}
}
