"""Named tuples of arrays that kernels take by reference."""

from __future__ import annotations

from typing import Any, TypeVar
from zlib import crc32

from llvmlite import ir
from numba.core import types
from numba.core.cgutils import alloca_once
from numba.core.imputils import lower_getattr_generic
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.extending import NativeValue, models, register_model, typeof_impl, unbox

Tuple = TypeVar("Tuple", bound=type[Any])
WORD = ir.IntType(64)
WORDS = ir.LiteralStructType([WORD]).as_pointer()
"""No array's data have this type, so that a block is known by it among a function's arguments."""


def by_reference(kind: Tuple) -> Tuple:
    """Let kernels take a class of named tuples by reference: its arrays, and single numbers.

    numba passes named tuples by value. Each array is seven words or more of every call, and of
    every place where a variable is read: most of what the compiler then does is to copy them.
    """

    @typeof_impl.register(kind)
    def find_type(values: Any, context: Any) -> Block:
        fields = zip(values._fields, (typeof_impl(value, context) for value in values), strict=True)
        return Block(kind.__name__, tuple(fields))

    return kind


class Block(types.Type):
    """The type of a pointer to the words of a named tuple's fields, one after another.

    Args:
        name: Of the class.
        fields: Name and numba's type of each.
    """

    def __init__(self, name: str, fields: tuple[tuple[str, Any], ...]) -> None:
        self.places: dict[str, tuple[int, Any]] = {}
        self.n_words = 0
        for field, of in fields:
            self.places[field] = self.n_words, of
            # as numba's arrays are: three pointers, two numbers, and a shape and strides
            self.n_words += 5 + 2 * of.ndim if isinstance(of, types.Array) else 1
        super().__init__(f"{name}_{crc32(repr(fields).encode()):x}")


@register_model(Block)
class BlockModel(models.PrimitiveModel):
    """A block is a pointer."""

    def __init__(self, manager: Any, block: Block) -> None:
        super().__init__(manager, block, WORDS)


@infer_getattr
class BlockAttribute(AttributeTemplate):
    """The types of a block's fields."""

    key = Block

    def generic_resolve(self, block: Block, name: str) -> Any:
        """The type of one field; None if there is none."""
        return block.places.get(name, (0, None))[1]


@lower_getattr_generic(Block)
def load_field(context: Any, builder: Any, block: Block, words: Any, name: str) -> Any:
    """Load a field where it is used."""
    # No kernel writes to a block: its words need not be loaded again after other arrays change.
    if "alwaysinline" not in builder.function.attributes:
        for argument in builder.function.args:
            if argument.type == WORDS:
                argument.add_attribute("noalias")
    place, of = block.places[name]
    pointer = point_to(context, builder, words, place, of)
    if isinstance(of, types.Array):
        return builder.load(pointer)
    return context.unpack_value(builder, of, pointer)


def point_to(context: Any, builder: Any, words: Any, place: int, of: Any) -> Any:
    """A pointer to a field, which begins at a word."""
    word = builder.gep(builder.bitcast(words, WORD.as_pointer()), [WORD(place)])
    return builder.bitcast(word, context.get_data_type(of).as_pointer())


@unbox(Block)
def unbox_block(block: Block, values: Any, c: Any) -> Any:
    """Write the fields of a tuple to the stack of the function that calls the kernel."""
    void = c.pyapi.voidptr
    adapt = c.pyapi._get_function(
        ir.FunctionType(ir.IntType(32), [c.pyapi.pyobj, void]), "numba_adapt_ndarray"
    )
    size = WORD(block.n_words)
    words = c.builder.bitcast(alloca_once(c.builder, WORD, size), WORDS)
    failed = ir.IntType(1)(0)
    for index, (place, of) in enumerate(block.places.values()):
        value = c.pyapi.tuple_getitem(values, index)
        pointer = point_to(c.context, c.builder, words, place, of)
        if isinstance(of, types.Array):
            # it fails where there is no array, but then the tuple has another type
            c.builder.call(adapt, [value, c.builder.bitcast(pointer, void)])
        else:
            native = c.unbox(of, value)
            c.context.pack_value(c.builder, of, native.value, pointer)
            failed = c.builder.or_(failed, native.is_error)
    return NativeValue(words, is_error=failed)
