package accelerd

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
	"unsafe"

	pb "github.com/accelerd/accelerd/client/go/accelerd/v1"
)

// Element is a type of the elements of tensors.
type Element interface {
	bool | int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | float32 | float64 | Float16 | BFloat16
}

// Tensor is a dense array. The elements are little-endian and row-major.
type Tensor struct {
	Dtype Dtype
	// Shape is the extent of each dimension, outermost first.
	Shape []int
	// Data are the bytes of the elements.
	Data []byte
}

// isLittleEndian is true if numbers in memory have the byte order of tensors.
var isLittleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// NewTensor returns a tensor of a shape. It shares the memory of the values.
func NewTensor[T Element](shape []int, values []T) (Tensor, error) {
	if count, ok := product(shape, 1); !ok || count != len(values) {
		return Tensor{}, invalid("values", "expected as many as shape %v has elements, got %d", shape, len(values))
	}
	return Tensor{Dtype: dtypeOf[T](), Shape: slices.Clone(shape), Data: toBytes(values)}, nil
}

// Vector returns a tensor of one dimension. It shares the memory of the values.
func Vector[T Element](values []T) Tensor {
	return Tensor{Dtype: dtypeOf[T](), Shape: []int{len(values)}, Data: toBytes(values)}
}

// Scalar returns a tensor without dimensions.
func Scalar[T Element](value T) Tensor {
	return Tensor{Dtype: dtypeOf[T](), Shape: []int{}, Data: toBytes([]T{value})}
}

// Values returns the elements of a tensor. It shares the tensor's memory if that is aligned. The type must be that of the elements.
func Values[T Element](tensor Tensor) ([]T, error) {
	if expected := dtypeOf[T](); tensor.Dtype != expected {
		return nil, invalid("tensor", "expected elements of type %v, got %v", expected, tensor.Dtype)
	}
	if err := tensor.check(); err != nil {
		return nil, err
	}
	return fromBytes[T](tensor.Data), nil
}

// Rows returns the rows of a tensor of two dimensions, such as vectors, as [Values] returns its elements.
func Rows[T Element](tensor Tensor) ([][]T, error) {
	if len(tensor.Shape) != 2 {
		return nil, invalid("tensor", "expected 2 dimensions, got shape %v", tensor.Shape)
	}
	values, err := Values[T](tensor)
	if err != nil {
		return nil, err
	}
	rows := make([][]T, tensor.Shape[0])
	width := tensor.Shape[1]
	for at := range rows {
		rows[at] = values[at*width : (at+1)*width : (at+1)*width]
	}
	return rows, nil
}

// Len returns the number of elements.
func (t Tensor) Len() int {
	count, _ := product(t.Shape, 1)
	return count
}

// rows returns the rows from start to stop of a tensor of at least one dimension.
func (t Tensor) rows(start, stop int) Tensor {
	size := len(t.Data) / max(t.Shape[0], 1)
	shape := append([]int{stop - start}, t.Shape[1:]...)
	return Tensor{Dtype: t.Dtype, Shape: shape, Data: t.Data[start*size : stop*size]}
}

func (t Tensor) check() error {
	size := sizeOf(t.Dtype)
	if size == 0 {
		return invalid("tensor", "unknown element type %v", t.Dtype)
	}
	if expected, ok := product(t.Shape, size); !ok || expected != len(t.Data) {
		return invalid("tensor", "expected as many bytes as %v of shape %v have, got %d", t.Dtype, t.Shape, len(t.Data))
	}
	return nil
}

// message returns the tensor of the protocol, which shares the memory.
func (t Tensor) message() *pb.Tensor {
	return &pb.Tensor{Dtype: t.Dtype, Shape: extents(t.Shape), Data: t.Data}
}

// received returns a tensor of a response.
func received(what string, message *pb.Tensor) (Tensor, error) {
	if message == nil {
		return Tensor{}, malformed("no %s", what)
	}
	shape := make([]int, len(message.GetShape()))
	for at, extent := range message.GetShape() {
		if shape[at] = int(extent); int64(shape[at]) != extent {
			return Tensor{}, malformed("%s: extent %d", what, extent)
		}
	}
	tensor := Tensor{Dtype: message.GetDtype(), Shape: shape, Data: message.GetData()}
	if err := tensor.check(); err != nil {
		return Tensor{}, malformed("%s: %v", what, err)
	}
	return tensor, nil
}

// receivedValues returns the elements of a tensor of a response.
func receivedValues[T Element](what string, message *pb.Tensor) ([]T, error) {
	tensor, err := received(what, message)
	if err != nil {
		return nil, err
	}
	values, err := Values[T](tensor)
	if err != nil {
		return nil, malformed("%s: %v", what, err)
	}
	return values, nil
}

func extents(shape []int) []int64 {
	found := make([]int64, len(shape))
	for at, extent := range shape {
		found[at] = int64(extent)
	}
	return found
}

// product returns the product of a shape and a size; false if it is no size of memory.
func product(shape []int, size int) (int, bool) {
	found := uint64(size)
	if slices.Contains(shape, 0) {
		found = 0
	}
	for _, extent := range shape {
		if extent < 0 {
			return 0, false
		}
		high, low := bits.Mul64(found, uint64(extent))
		if high != 0 || low > math.MaxInt {
			return 0, false
		}
		found = low
	}
	return int(found), true
}

func dtypeOf[T Element]() Dtype {
	var zero T
	switch any(zero).(type) {
	case bool:
		return Bool
	case int8:
		return I8
	case int16:
		return I16
	case int32:
		return I32
	case int64:
		return I64
	case uint8:
		return U8
	case uint16:
		return U16
	case uint32:
		return U32
	case uint64:
		return U64
	case float32:
		return F32
	case float64:
		return F64
	case Float16:
		return F16
	default:
		return BF16
	}
}

// sizeOf returns the bytes of an element; 0 for an unknown type.
func sizeOf(dtype Dtype) int {
	switch dtype {
	case I8, U8, Bool:
		return 1
	case F16, BF16, I16, U16:
		return 2
	case F32, I32, U32:
		return 4
	case F64, I64, U64:
		return 8
	default:
		return 0
	}
}

// toBytes returns values as little-endian bytes, without a copy on a little-endian machine.
func toBytes[T Element](values []T) []byte {
	size := int(unsafe.Sizeof(*new(T)))
	if len(values) == 0 {
		return nil
	}
	// Every byte of these types is a valid uint8, and the slice ends where the values do.
	data := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))), len(values)*size)
	if isLittleEndian || size == 1 {
		return data
	}
	return reversed(data, size)
}

// fromBytes returns little-endian bytes as values, without a copy if they are aligned and the machine is little-endian.
func fromBytes[T Element](data []byte) []T {
	size := int(unsafe.Sizeof(*new(T)))
	if len(data) < size {
		return []T{}
	}
	if dtypeOf[T]() == Bool {
		return any(truths(data)).([]T)
	}
	start := unsafe.Pointer(unsafe.SliceData(data))
	isAligned := uintptr(start)%unsafe.Alignof(*new(T)) == 0
	if isAligned && (isLittleEndian || size == 1) {
		// The bytes are aligned, and all bits are valid values of these types but bool.
		return unsafe.Slice((*T)(start), len(data)/size)
	}
	values := make([]T, len(data)/size)
	copied := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))), len(values)*size)
	if isLittleEndian {
		copy(copied, data)
	} else {
		copy(copied, reversed(data, size))
	}
	return values
}

// truths returns bytes as truth values: any but 0 is true.
func truths(data []byte) []bool {
	flags := make([]bool, len(data))
	for at, value := range data {
		flags[at] = value != 0
	}
	return flags
}

// reversed returns elements in the other byte order.
func reversed(data []byte, size int) []byte {
	swapped := slices.Clone(data)
	for start := 0; start+size <= len(swapped); start += size {
		slices.Reverse(swapped[start : start+size])
	}
	return swapped
}
