package accelerd

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"

	pb "github.com/accelerd/accelerd/client/go/accelerd/v1"
)

// ID is the id of a point: a UUID, or a number if UUID is empty.
type ID struct {
	Number uint64
	UUID   string
}

// String returns the UUID or the number.
func (id ID) String() string {
	if id.UUID != "" {
		return id.UUID
	}
	return strconv.FormatUint(id.Number, 10)
}

// IDs are ids of points: all are numbers, or all are UUIDs.
type IDs struct {
	Numbers []uint64
	UUIDs   []string
}

// Numbers returns ids that are numbers.
func Numbers(numbers ...uint64) IDs {
	return IDs{Numbers: numbers}
}

// UUIDs returns ids that are UUIDs, in any form of RFC 9562.
func UUIDs(uuids ...string) IDs {
	return IDs{UUIDs: uuids}
}

// Len returns the number of ids.
func (ids IDs) Len() int {
	return len(ids.Numbers) + len(ids.UUIDs)
}

// part returns the ids from start to stop, of numbers or of UUIDs.
func (ids IDs) part(start, stop int) IDs {
	if len(ids.UUIDs) > 0 {
		return IDs{UUIDs: ids.UUIDs[start:stop]}
	}
	return IDs{Numbers: ids.Numbers[start:stop]}
}

// message returns the ids of the protocol.
func (ids IDs) message() *pb.PointIds {
	return &pb.PointIds{PackedNumbers: toBytes(ids.Numbers), Uuids: ids.UUIDs}
}

// duplicate returns an error if an id occurs twice.
func (ids IDs) duplicate() error {
	numbers := make(map[uint64]bool, len(ids.Numbers))
	for _, number := range ids.Numbers {
		if numbers[number] {
			return invalid("ids", "duplicate id %d", number)
		}
		numbers[number] = true
	}
	uuids := make(map[string]bool, len(ids.UUIDs))
	for _, uuid := range ids.UUIDs {
		if uuids[uuid] {
			return invalid("ids", "duplicate id %s", uuid)
		}
		uuids[uuid] = true
	}
	return nil
}

// receivedIDs returns the ids of a response, in any form.
func receivedIDs(message *pb.PointIds) []ID {
	var found []ID
	for _, number := range message.GetNumbers() {
		found = append(found, ID{Number: number})
	}
	for packed := message.GetPackedNumbers(); len(packed) >= 8; packed = packed[8:] {
		found = append(found, ID{Number: binary.LittleEndian.Uint64(packed)})
	}
	for _, uuid := range message.GetUuids() {
		found = append(found, ID{UUID: uuid})
	}
	for packed := message.GetPackedUuids(); len(packed) >= 16; packed = packed[16:] {
		found = append(found, ID{UUID: formatUUID(packed[:16])})
	}
	return found
}

func formatUUID(bytes []byte) string {
	digits := hex.EncodeToString(bytes)
	return strings.Join([]string{digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]}, "-")
}

// Payload has the fields of a point: string, int64, float64 or bool. Fields to write may also be any other integer, or float32.
type Payload map[string]any

func (p Payload) message() (*pb.Payload, error) {
	fields := make(map[string]*pb.Value, len(p))
	for name, value := range p {
		converted, err := newValue(value)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", name, err)
		}
		fields[name] = converted
	}
	return &pb.Payload{Fields: fields}, nil
}

func receivedPayload(message *pb.Payload) Payload {
	payload := make(Payload, len(message.GetFields()))
	for name, value := range message.GetFields() {
		switch kind := value.GetKind().(type) {
		case *pb.Value_StringValue:
			payload[name] = kind.StringValue
		case *pb.Value_IntValue:
			payload[name] = kind.IntValue
		case *pb.Value_DoubleValue:
			payload[name] = kind.DoubleValue
		case *pb.Value_BoolValue:
			payload[name] = kind.BoolValue
		}
	}
	return payload
}

func newValue(value any) (*pb.Value, error) {
	switch value := value.(type) {
	case string:
		return &pb.Value{Kind: &pb.Value_StringValue{StringValue: value}}, nil
	case bool:
		return &pb.Value{Kind: &pb.Value_BoolValue{BoolValue: value}}, nil
	case float64:
		return &pb.Value{Kind: &pb.Value_DoubleValue{DoubleValue: value}}, nil
	case float32:
		return newValue(float64(value))
	}
	integer, err := newInteger(value)
	if err != nil {
		return nil, err
	}
	return &pb.Value{Kind: &pb.Value_IntValue{IntValue: integer}}, nil
}

func newInteger(value any) (int64, error) {
	switch value := value.(type) {
	case int:
		return int64(value), nil
	case int8:
		return int64(value), nil
	case int16:
		return int64(value), nil
	case int32:
		return int64(value), nil
	case int64:
		return value, nil
	case uint8:
		return int64(value), nil
	case uint16:
		return int64(value), nil
	case uint32:
		return int64(value), nil
	case uint:
		return newInteger(uint64(value))
	case uint64:
		if value > math.MaxInt64 {
			return 0, fmt.Errorf("expected an integer of at most 2^63 - 1, got %d", value)
		}
		return int64(value), nil
	default:
		return 0, fmt.Errorf("expected string, bool, an integer or a floating-point number, got %T", value)
	}
}
