// The headers of gRPC and protobuf, which take longer to compile than the sources of the library.
#pragma once

#include <accelerd/v1/device.grpc.pb.h>
#include <accelerd/v1/embed.grpc.pb.h>
#include <accelerd/v1/kernel.grpc.pb.h>
#include <accelerd/v1/parse.grpc.pb.h>
#include <accelerd/v1/similarity.grpc.pb.h>
#include <accelerd/v1/tensor.grpc.pb.h>
#include <accelerd/v1/verify.grpc.pb.h>
#include <grpcpp/grpcpp.h>

#include "accelerd/client.h"
