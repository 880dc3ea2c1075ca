package accelerd

import (
	"math"
	"slices"
	"testing"

	pb "github.com/accelerd/accelerd/client/go/accelerd/v1"
)

func checkRoundTrip[T Element](t *testing.T, dtype Dtype, values ...T) {
	t.Helper()
	tensor, err := NewTensor([]int{1, len(values)}, values)
	if err != nil {
		t.Fatal(err)
	}
	if tensor.Dtype != dtype || len(tensor.Data) != sizeOf(dtype)*len(values) {
		t.Errorf("%v: %d bytes of %v", dtype, len(tensor.Data), tensor.Dtype)
	}
	back, err := received("tensor", tensor.message())
	if err != nil {
		t.Fatal(err)
	}
	found, err := Values[T](back)
	if err != nil || !slices.Equal(found, values) {
		t.Errorf("%v: %v, %v", dtype, found, err)
	}
	// At an odd address the elements are copied.
	shifted := append([]byte{0}, tensor.Data...)[1:]
	if found := fromBytes[T](shifted); !slices.Equal(found, values) {
		t.Errorf("%v: unaligned: %v", dtype, found)
	}
}

func TestElementsOfAllTypesAreSentAndReceived(t *testing.T) {
	checkRoundTrip(t, Bool, true, false, true)
	checkRoundTrip[int8](t, I8, -128, 0, 127)
	checkRoundTrip[int16](t, I16, math.MinInt16, 0, math.MaxInt16)
	checkRoundTrip[int32](t, I32, math.MinInt32, 1, math.MaxInt32)
	checkRoundTrip[int64](t, I64, math.MinInt64, 1, math.MaxInt64)
	checkRoundTrip[uint8](t, U8, 0, 255)
	checkRoundTrip[uint16](t, U16, 0, math.MaxUint16)
	checkRoundTrip[uint32](t, U32, 0, math.MaxUint32)
	checkRoundTrip[uint64](t, U64, 0, math.MaxUint64)
	checkRoundTrip[float32](t, F32, -1.5, 0, math.MaxFloat32)
	checkRoundTrip(t, F64, -1.5, 0, math.MaxFloat64)
	checkRoundTrip(t, F16, NewFloat16(1.5), NewFloat16(-2))
	checkRoundTrip(t, BF16, NewBFloat16(1.5), NewBFloat16(-2))
}

func TestDataIsLittleEndian(t *testing.T) {
	if data := Vector([]uint32{0x01020304}).Data; !slices.Equal(data, []byte{4, 3, 2, 1}) {
		t.Errorf("%v", data)
	}
	if data := reversed([]byte{1, 2, 3, 4}, 2); !slices.Equal(data, []byte{2, 1, 4, 3}) {
		t.Errorf("in the other order: %v", data)
	}
}

func TestATensorSharesTheMemoryOfItsValues(t *testing.T) {
	values := []float32{1, 2}
	tensor := Vector(values)
	values[1] = 5
	found, err := Values[float32](tensor)
	if err != nil || found[1] != 5 {
		t.Errorf("%v, %v", found, err)
	}
}

func TestRowsAreThoseOfTheShape(t *testing.T) {
	tensor, err := NewTensor([]int{2, 3}, []int32{1, 2, 3, 4, 5, 6})
	if err != nil {
		t.Fatal(err)
	}
	rows, err := Rows[int32](tensor)
	if err != nil || !slices.Equal(rows[1], []int32{4, 5, 6}) {
		t.Errorf("%v, %v", rows, err)
	}
	if part := tensor.rows(1, 2); part.Shape[0] != 1 || !slices.Equal(part.Data, tensor.Data[12:]) {
		t.Errorf("%v", part)
	}
	if _, err := Rows[int32](Vector([]int32{1})); err == nil {
		t.Error("a vector has no rows")
	}
}

func TestTensorsThatCannotBeAreRefused(t *testing.T) {
	if _, err := NewTensor([]int{2, 2}, []float32{1}); err == nil {
		t.Error("too few values")
	}
	for _, shape := range [][]int{{-1}, {math.MaxInt, 2}, {math.MaxInt / 2, 3}} {
		if _, err := NewTensor(shape, []float32{1}); err == nil {
			t.Errorf("shape %v", shape)
		}
	}
	if _, err := Values[float64](Scalar(float32(1))); err == nil {
		t.Error("another type")
	}
	for _, bad := range []*pb.Tensor{
		nil, {Dtype: F32, Shape: []int64{2}, Data: []byte{1}}, {Shape: []int64{0}}, {Dtype: F32, Shape: []int64{-1, -1}, Data: make([]byte, 4)},
	} {
		if _, err := received("tensor", bad); err == nil {
			t.Errorf("received %v", bad)
		}
	}
}

func TestEmptyTensorsAreTensors(t *testing.T) {
	for _, shape := range [][]int{{0}, {0, math.MaxInt}, {3, 0}} {
		tensor, err := NewTensor(shape, []float32{})
		if err != nil || tensor.Len() != 0 {
			t.Errorf("%v: %v", shape, err)
		}
	}
}

func TestAnyByteButZeroIsTrue(t *testing.T) {
	values, err := Values[bool](Tensor{Dtype: Bool, Shape: []int{3}, Data: []byte{0, 1, 7}})
	if err != nil || !slices.Equal(values, []bool{false, true, true}) {
		t.Errorf("%v, %v", values, err)
	}
}

func TestHalfPrecisionNumbersRoundToTheNearestWithTiesToEven(t *testing.T) {
	for bits := range 1 << 16 {
		half, brain := Float16(bits), BFloat16(bits)
		if value := half.Float32(); value == value && NewFloat16(value) != half {
			t.Fatalf("f16 %#04x is %v, which becomes %#04x", bits, value, NewFloat16(value))
		}
		if value := brain.Float32(); value == value && NewBFloat16(value) != brain {
			t.Fatalf("bf16 %#04x is %v, which becomes %#04x", bits, value, NewBFloat16(value))
		}
	}
	// Between two neighbours the even one is nearest, and any other number goes to its side.
	for bits := range 0x7bff {
		low, high := Float16(bits).Float32(), Float16(bits+1).Float32()
		middle := (low + high) / 2
		even := Float16(bits + bits&1)
		below, above := math.Nextafter32(middle, 0), math.Nextafter32(middle, 1e9)
		if NewFloat16(middle) != even || NewFloat16(below) != Float16(bits) || NewFloat16(above) != Float16(bits+1) {
			t.Fatalf("between %#04x and its successor", bits)
		}
	}
	for value, expected := range map[float32]Float16{65519: 0x7bff, 65520: 0x7c00, float32(math.Inf(-1)): 0xfc00} {
		if found := NewFloat16(value); found != expected {
			t.Errorf("%v: %#04x", value, found)
		}
	}
	nan := math.Float32frombits(0x7f800001)
	if half, brain := NewFloat16(nan).Float32(), NewBFloat16(nan).Float32(); half == half || brain == brain {
		t.Errorf("NaN becomes %v and %v", half, brain)
	}
}
