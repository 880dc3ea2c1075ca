package accelerd

import (
	"sync"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	pb "github.com/accelerd/accelerd/client/go/accelerd/v1"
)

// idempotentMethods are the full names of methods, such as /accelerd.v1.EmbedService/Embed, whose calls may be repeated.
var idempotentMethods = sync.OnceValue(func() map[string]bool {
	found := map[string]bool{}
	protoregistry.GlobalFiles.RangeFilesByPackage("accelerd.v1", func(file protoreflect.FileDescriptor) bool {
		for at := range file.Services().Len() {
			addIdempotent(found, file.Services().Get(at))
		}
		return true
	})
	return found
})

func addIdempotent(found map[string]bool, service protoreflect.ServiceDescriptor) {
	for at := range service.Methods().Len() {
		method := service.Methods().Get(at)
		options, ok := method.Options().(*descriptorpb.MethodOptions)
		if ok && options.GetIdempotencyLevel() != descriptorpb.MethodOptions_IDEMPOTENCY_UNKNOWN {
			found["/"+string(service.FullName())+"/"+string(method.Name())] = true
		}
	}
}

// isIdempotent returns true if a call may be repeated although the daemon may have executed it.
func isIdempotent(method string, request any) bool {
	execute, ok := request.(*pb.ExecuteRequest)
	if !ok {
		return idempotentMethods()[method]
	}
	for _, output := range execute.GetOutputs() {
		if output.GetKeep() {
			return false
		}
	}
	return true
}
