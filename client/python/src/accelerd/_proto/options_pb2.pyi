from google.protobuf import descriptor_pb2 as _descriptor_pb2
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from typing import ClassVar as _ClassVar

DESCRIPTOR: _descriptor.FileDescriptor

class Role(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ROLE_UNSPECIFIED: _ClassVar[Role]
    ROLE_READ: _ClassVar[Role]
    ROLE_WRITE: _ClassVar[Role]
    ROLE_ADMIN: _ClassVar[Role]

class SizeClass(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SIZE_CLASS_UNSPECIFIED: _ClassVar[SizeClass]
    SIZE_CLASS_SMALL: _ClassVar[SizeClass]
    SIZE_CLASS_VARIABLE: _ClassVar[SizeClass]
    SIZE_CLASS_LARGE: _ClassVar[SizeClass]
ROLE_UNSPECIFIED: Role
ROLE_READ: Role
ROLE_WRITE: Role
ROLE_ADMIN: Role
SIZE_CLASS_UNSPECIFIED: SizeClass
SIZE_CLASS_SMALL: SizeClass
SIZE_CLASS_VARIABLE: SizeClass
SIZE_CLASS_LARGE: SizeClass
REQUIRED_ROLE_FIELD_NUMBER: _ClassVar[int]
required_role: _descriptor.FieldDescriptor
SIZE_CLASS_FIELD_NUMBER: _ClassVar[int]
size_class: _descriptor.FieldDescriptor
