"""Java's functions as values, streams and Optional. The table is like that of `pyjms.porting.library`.

The first member of a class in ``java.util.function`` is the one method of the interface. ``$T`` is what a call itself tells.
"""

from __future__ import annotations

from typing import Final

__all__ = ["FUNCTIONS"]

_NUMBERS = r"""
class java.util.stream.%(stream)s
  %(stream)s filter(Predicate<%(box)s>) @known
  %(stream)s map(UnaryOperator<%(box)s>) @known
  Stream<$R> mapToObj(Function<%(box)s, $R>) = $0.map($1) @known
  Stream<%(box)s> boxed() = $0 @known
  DoubleStream asDoubleStream() = $0.map(float) @known
  void forEach(Consumer<%(box)s>)
  %(primitive)s sum()
  long count() @size
  Optional<%(box)s> max() @known
  Optional<%(box)s> min() @known
  Optional<Double> average() @known
  boolean anyMatch(Predicate<%(box)s>)
  boolean allMatch(Predicate<%(box)s>)
  boolean noneMatch(Predicate<%(box)s>)
  %(stream)s sorted() @known
  %(stream)s distinct() @known
  %(stream)s limit(long) @known
  %(primitive)s[] toArray() = $0.toList() @known
  %(primitive)s reduce(%(box)s, BinaryOperator<%(box)s>)
"""

FUNCTIONS: Final = r"""
class java.util.function.Function<T, R>
  R apply(T) = java.function_of($0)($1)
class java.util.function.BiFunction<T, U, R>
  R apply(T, U) = java.function_of($0)($1, $2)
class java.util.function.UnaryOperator<T>
  T apply(T) = java.function_of($0)($1)
class java.util.function.BinaryOperator<T>
  T apply(T, T) = java.function_of($0)($1, $2)
class java.util.function.Supplier<T>
  T get() = java.function_of($0)()
class java.util.function.Consumer<T>
  void accept(T) = java.function_of($0)($1)
class java.util.function.BiConsumer<T, U>
  void accept(T, U) = java.function_of($0)($1, $2)
class java.util.function.Predicate<T>
  boolean test(T) = java.function_of($0)($1)
class java.util.function.BiPredicate<T, U>
  boolean test(T, U) = java.function_of($0)($1, $2)
class java.util.function.BooleanSupplier
  boolean getAsBoolean() = java.function_of($0)()
class java.util.function.IntSupplier
  int getAsInt() = java.function_of($0)()
class java.util.function.LongSupplier
  long getAsLong() = java.function_of($0)()
class java.util.function.IntConsumer
  void accept(int) = java.function_of($0)($1)
class java.util.function.IntPredicate
  boolean test(int) = java.function_of($0)($1)
class java.util.function.IntFunction<R>
  R apply(int) = java.function_of($0)($1)
class java.util.function.IntUnaryOperator
  int applyAsInt(int) = java.function_of($0)($1)
class java.util.function.IntBinaryOperator
  int applyAsInt(int, int) = java.function_of($0)($1, $2)
class java.util.function.ToIntFunction<T>
  int applyAsInt(T) = java.function_of($0)($1)
class java.util.function.ToLongFunction<T>
  long applyAsLong(T) = java.function_of($0)($1)
class java.util.function.ToDoubleFunction<T>
  double applyAsDouble(T) = java.function_of($0)($1)
class java.util.Comparator<T>
  int compare(T, T) = java.function_of($0)($1, $2)
  Comparator<T> reversed() = java.reversed_order($0) @known
  Comparator<T> thenComparing(Comparator<T>) = java.then_comparing($0, $1) @known
  Comparator<T> thenComparing(Function<T, $U>) = java.then_comparing($0, java.comparing($1)) @known
  Comparator<T> thenComparingInt(ToIntFunction<T>) = java.then_comparing($0, java.comparing($1)) @known
  static Comparator<$T> comparing(Function<$T, $U>) = java.comparing($1) @known
  static Comparator<$T> comparing(Function<$T, $U>, Comparator<$U>) = java.comparing($1, $2) @known
  static Comparator<$T> comparingInt(ToIntFunction<$T>) = java.comparing($1) @known
  static Comparator<$T> comparingLong(ToLongFunction<$T>) = java.comparing($1) @known
  static Comparator<$T> comparingDouble(ToDoubleFunction<$T>) = java.comparing($1) @known
  static Comparator<$T> naturalOrder() = java.comparing(lambda each: each) @known
  static Comparator<$T> reverseOrder() = java.reversed_order() @known
class java.util.Optional<T>
  static Optional<$T> of($T) = java.Optional(java.require_non_null($1)) @known
  static Optional<$T> ofNullable($T) = java.Optional($1) @known
  static Optional<$T> empty() = java.Optional() @known
  boolean isPresent()
  boolean isEmpty()
  T get()
  int getAsInt() = $0.get()
  double getAsDouble() = $0.get()
  T orElse(T)
  T orElseGet(Supplier<T>)
  T orElseThrow() = $0.get()
  T orElseThrow(Supplier<$X>)
  void ifPresent(Consumer<T>)
  Optional<$R> map(Function<T, $R>) @known
  Optional<T> filter(Predicate<T>) @known
class java.util.stream.Collector<T, R>
class java.util.stream.Stream<T>
  Stream<T> filter(Predicate<T>) @known
  Stream<$R> map(Function<T, $R>) @known
  IntStream mapToInt(ToIntFunction<T>) = $0.map($1) @known
  LongStream mapToLong(ToLongFunction<T>) = $0.map($1) @known
  DoubleStream mapToDouble(ToDoubleFunction<T>) = $0.map($1) @known
  Stream<$R> flatMap(Function<T, Stream<$R>>) @known
  Stream<T> peek(Consumer<T>) @known
  Stream<T> distinct() @known
  Stream<T> sorted() @known
  Stream<T> sorted(Comparator<T>) @known
  Stream<T> limit(long) @known
  Stream<T> skip(long) @known
  Stream<T> parallel() = $0 @known
  Stream<T> sequential() = $0 @known
  void forEach(Consumer<T>)
  void forEachOrdered(Consumer<T>) = $0.forEach($1)
  List<T> toList() @known
  Object[] toArray() = $0.toList() @known
  T[] toArray(any) = $0.toList() @known
  long count() @size
  boolean anyMatch(Predicate<T>)
  boolean allMatch(Predicate<T>)
  boolean noneMatch(Predicate<T>)
  Optional<T> findFirst() @known
  Optional<T> findAny() = $0.findFirst() @known
  Optional<T> max(Comparator<T>) @known
  Optional<T> min(Comparator<T>) @known
  T reduce(T, BinaryOperator<T>)
  Optional<T> reduce(BinaryOperator<T>) = $0.reduced($1) @known
  $R collect(Collector<T, $R>) @known
  static Stream<$T> of($T...) = java.Stream([$*]) @known
  static Stream<$T> iterate($T, UnaryOperator<$T>) = java.Stream.iterate($1, $2) @known
  static Stream<$T> generate(Supplier<$T>) = java.Stream.generate($1) @known
class java.util.stream.Collectors
  static Collector<$T, List<$T>> toList() = list @known
  static Collector<$T, Set<$T>> toSet() = set @known
  static Collector<$T, String> joining() = java.joining() @known
  static Collector<$T, String> joining(String) = java.joining($1) @known
  static Collector<$T, String> joining(String, String, String) = java.joining($1, $2, $3) @known
  static Collector<$T, Map<$K, List<$T>>> groupingBy(Function<$T, $K>) = java.grouped($1) @known
  static Collector<$T, Map<$K, $A>> groupingBy(Function<$T, $K>, Collector<$T, $A>) = java.grouped($1, $2) @known
  static Collector<$T, Map<$K, $V>> toMap(Function<$T, $K>, Function<$T, $V>) = java.to_map($1, $2) @known
  static Collector<$T, Long> counting() = java.counted @known
""" + "".join(
    _NUMBERS % {"stream": stream, "box": box, "primitive": primitive}
    for stream, box, primitive in (
        ("IntStream", "Integer", "int"),
        ("LongStream", "Long", "long"),
        ("DoubleStream", "Double", "double"),
    )
).replace(
    "class java.util.stream.LongStream",
    "  static IntStream range(int, int) = java.Stream(range($1, $2)) @known\n"
    "  static IntStream rangeClosed(int, int) = java.Stream(range($1, $a2 + 1)) @known\n"
    "class java.util.stream.LongStream",
)
