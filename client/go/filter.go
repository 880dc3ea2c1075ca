package accelerd

import (
	"fmt"

	pb "github.com/accelerd/accelerd/client/go/accelerd/v1"
)

// Filter selects points. All parts must hold.
type Filter struct {
	// IDs are those of the points; nil means all.
	IDs *IDs
	// Must are conditions that hold, and MustNot conditions that do not.
	Must    []Condition
	MustNot []Condition
}

// Condition is a test of a payload field.
type Condition struct {
	message *pb.Condition
	err     error
}

// Range are bounds, each nil or a number.
type Range struct {
	GT, GTE, LT, LTE any
}

// Equal is true for points whose field has a value.
func Equal(field string, value any) Condition {
	converted, err := newValue(value)
	return condition(field, &pb.Condition{Test: &pb.Condition_Equals{Equals: converted}}, err)
}

// AnyOf is true for points whose field has one of several values.
func AnyOf(field string, values ...any) Condition {
	set := &pb.ValueSet{}
	for _, value := range values {
		converted, err := newValue(value)
		if err != nil {
			return condition(field, nil, err)
		}
		set.Values = append(set.Values, converted)
	}
	return condition(field, &pb.Condition{Test: &pb.Condition_AnyOf{AnyOf: set}}, nil)
}

// InRange is true for points whose field is a number within bounds.
func InRange(field string, bounds Range) Condition {
	numbers := &pb.NumberRange{}
	for _, bound := range []struct {
		value any
		to    **pb.Value
	}{{bounds.GT, &numbers.Gt}, {bounds.GTE, &numbers.Gte}, {bounds.LT, &numbers.Lt}, {bounds.LTE, &numbers.Lte}} {
		if bound.value == nil {
			continue
		}
		converted, err := newValue(bound.value)
		if err != nil {
			return condition(field, nil, err)
		}
		*bound.to = converted
	}
	return condition(field, &pb.Condition{Test: &pb.Condition_NumberRange{NumberRange: numbers}}, nil)
}

func condition(field string, message *pb.Condition, err error) Condition {
	if err != nil {
		return Condition{err: fmt.Errorf("field %q: %w", field, err)}
	}
	message.Field = field
	return Condition{message: message}
}

// message returns the filter of the protocol; nil if there is none.
func (f *Filter) message() (*pb.Filter, error) {
	if f == nil || f.isEmpty() {
		return nil, nil
	}
	filter := &pb.Filter{}
	if f.IDs != nil {
		filter.Ids = f.IDs.message()
	}
	var err error
	if filter.Must, err = conditions("filter.must", f.Must); err != nil {
		return nil, err
	}
	filter.MustNot, err = conditions("filter.must_not", f.MustNot)
	return filter, err
}

func (f *Filter) isEmpty() bool {
	return f.IDs == nil && len(f.Must) == 0 && len(f.MustNot) == 0
}

func conditions(field string, list []Condition) ([]*pb.Condition, error) {
	var found []*pb.Condition
	for at, one := range list {
		if one.err != nil {
			return nil, invalid(fmt.Sprintf("%s[%d]", field, at), "%v", one.err)
		}
		found = append(found, one.message)
	}
	return found, nil
}
