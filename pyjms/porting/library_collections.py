"""Java's collections in Python: lists, dictionaries, sets. The table is like that of `pyjms.porting.library`."""

from __future__ import annotations

from typing import Final

__all__ = ["COLLECTIONS"]

_LIST = r"""
class java.util.%s<E> < List<E>, Serializable
  new() = []
  new(int) = []
  new(Collection<E>) = list($1)
"""
_DEQUE = r"""
class java.util.%s<E> < Deque<E>, List<E>
  new() = []
  new(int) = []
  new(Collection<E>) = list($1)
"""
_BLOCKING = r"""
class java.util.concurrent.%s<E> < BlockingQueue<E>
  new() = java.BlockingQueue()
  new(int) = java.BlockingQueue($1)
"""

COLLECTIONS: Final = (
    r"""
class java.lang.Iterable<E>
  Iterator<E> iterator() = java.Iterator($0) @known
  void forEach(Consumer<E>) = java.Stream($0).forEach($1)
class java.util.Iterator<E>
  boolean hasNext()
  E next()
  void remove()
class java.util.ListIterator<E> < Iterator<E>
class java.util.Enumeration<E>
  boolean hasMoreElements()
  E nextElement()
class java.util.Collection<E> < Iterable<E>
  int size() = len($0) @size
  boolean isEmpty() = len($0) == 0
  boolean contains(any) = $a1 in $0
  boolean remove(any) = java.removed($0, $1)
  boolean removeIf(Predicate<E>) = java.removed_if($0, $1)
  boolean removeAll(Collection<E>) = java.removed_all($0, $1)
  boolean retainAll(Collection<E>) = java.retained_all($0, $1)
  boolean containsAll(Collection<E>) = all(each in $0 for each in $1)
  Stream<E> stream() = java.Stream($0) @known
  Stream<E> parallelStream() = java.Stream($0) @known
  Object[] toArray() = list($0) @known
  E[] toArray(Object[]) = list($0) @known
  void clear()
class java.util.List<E> < Collection<E>
  boolean add(E) = java.added($0, $1)
  void add(int, E) = $0.insert(java.insert_index($1, len($0)), $2)
  boolean addAll(Collection<E>) = java.added_all($0, $1)
  E get(int) = java.element($0, $1)
  E set(int, E) = java.replaced($0, $1, $2)
  E remove(int) = $0.pop(java.check_index($1, len($0)))
  int indexOf(any) = java.index_in($0, $1)
  void sort(Comparator<E>) = java.sort($0, $1)
  void replaceAll(UnaryOperator<E>) = java.replace_all($0, $1)
  List<E> subList(int, int) = java.sublist($0, $1, $2) @known
  ListIterator<E> listIterator() = java.Iterator($0) @known
  static List<$T> copyOf(Collection<$T>) = list($1) @known
class java.util.Queue<E> < Collection<E>
  boolean add(E) = java.added($0, $1)
  boolean addAll(Collection<E>) = java.added_all($0, $1)
  boolean offer(E) = java.added($0, $1)
  E poll() = java.polled($0)
  E peek() = $0[0] if $0 else None
  E element() = java.first($0)
  E remove() = java.removed_first($0)
class java.util.Deque<E> < java.util.Queue<E>
  void addLast(E) = $0.append($1)
  void addFirst(E) = $0.insert(0, $1)
  boolean offerLast(E) = java.added($0, $1)
  void push(E) = $0.insert(0, $1)
  E pop() = java.removed_first($0)
  E getFirst() = java.first($0)
  E getLast() = java.last($0)
  E removeFirst() = java.removed_first($0)
  E removeLast() = java.removed_first($0, -1)
  E pollFirst() = java.polled($0)
  E pollLast() = java.polled($0, -1)
  E peekFirst() = $0[0] if $0 else None
  E peekLast() = $0[-1] if $0 else None
class java.util.Map<K, V>
  int size() = len($0) @size
  boolean isEmpty() = len($0) == 0
  V get(any) = $0.get($1)
  V getOrDefault(any, V) = $0.get($1, $2)
  V put(K, V) = java.put($0, $1, $2)
  V putIfAbsent(K, V) = java.put_if_absent($0, $1, $2)
  V merge(K, V, BiFunction<V, V, V>) = java.merged($0, $1, $2, $3)
  V compute(K, BiFunction<K, V, V>) = java.computed($0, $1, $2)
  V computeIfAbsent(K, Function<K, V>) = java.computed_if_absent($0, $1, $2)
  V computeIfPresent(K, BiFunction<K, V, V>) = java.computed_if_present($0, $1, $2)
  void forEach(BiConsumer<K, V>) = java.each_entry($0, $1)
  V remove(any) = $0.pop($1, None)
  boolean containsKey(any) = $a1 in $0
  boolean containsValue(any) = $a1 in $0.values()
  void clear()
  Set<K> keySet() = $0.keys() @known
  Collection<V> values() = $0.values() @known
  Set<Entry<K, V>> entrySet() = $0.items() @known
  void putAll(Map<K, V>) = $0.update($1)
  static Map<$K, $V> of() = {} @known
  static Map<$K, $V> of($K, $V) = {$1: $2} @known
  static Map<$K, $V> of($K, $V, $K, $V) = {$1: $2, $3: $4} @known
  static Map<$K, $V> of($K, $V, $K, $V, $K, $V) = {$1: $2, $3: $4, $5: $6} @known
class java.util.Map.Entry<K, V>
  K getKey() = $0[0]
  V getValue() = $0[1]
  static Comparator<Entry<$K, $V>> comparingByKey() = java.by_key(0) @known
  static Comparator<Entry<$K, $V>> comparingByValue() = java.by_key(1) @known
class java.util.LinkedHashMap<K, V> < HashMap<K, V>
  new() = {}
  new(int) = {}
  new(Map<K, V>) = dict($1)
class java.util.HashMap<K, V> < Map<K, V>, Serializable
  new() = {}
  new(int) = {}
  new(int, float) = {}
  new(Map<K, V>) = dict($1)
class java.util.WeakHashMap<K, V> < Map<K, V>
  new() = {}
class java.util.IdentityHashMap<K, V> < Map<K, V>
class java.util.SortedMap<K, V> < Map<K, V>
  K firstKey()
  K lastKey()
class java.util.NavigableMap<K, V> < SortedMap<K, V>
  Entry<K, V> firstEntry()
  Entry<K, V> lastEntry()
  K floorKey(K)
  K ceilingKey(K)
  K lowerKey(K)
  K higherKey(K)
class java.util.TreeMap<K, V> < NavigableMap<K, V>, Serializable
  new() = java.TreeMap()
  new(Comparator<K>) = java.TreeMap($1)
  new(Map<K, V>) = java.TreeMap($1)
class java.util.concurrent.ConcurrentSkipListMap<K, V> < NavigableMap<K, V>
  new() = java.TreeMap()
class java.util.EnumMap<K, V> < Map<K, V>
  new(Class) = java.TreeMap()
class java.util.concurrent.ConcurrentMap<K, V> < Map<K, V>
class java.util.concurrent.ConcurrentHashMap<K, V> < ConcurrentMap<K, V>
  new() = {}
  new(int) = {}
  new(Map<K, V>) = dict($1)
  static Set<$T> newKeySet() = set() @known
class java.util.Dictionary<K, V> < Map<K, V>
  Enumeration<K> keys() = java.enumeration($0, "Hashtable Enumerator") @known
  Enumeration<V> elements() = java.enumeration($0.values(), "Hashtable Enumerator") @known
class java.util.Hashtable<K, V> < Dictionary<K, V>, Serializable
  new() = {}
  new(int) = {}
  new(Map<K, V>) = dict($1)
class java.util.Properties < Hashtable<Object, Object>
  new() = {}
  new(Properties) = dict($1)
  String getProperty(String) = java.tied_properties($0, $1)
  String getProperty(String, String) = java.tied_properties($0, $1, $2)
  Object setProperty(String, String) = java.put($0, $1, $2)
  void load(InputStream) = java.loaded_properties($0, $1)
  void load(Reader) = java.loaded_properties($0, $1)
  Set<String> stringPropertyNames() = $0.keys() @known
  Enumeration<Object> propertyNames() = java.enumeration($0) @known
class java.util.Set<E> < Collection<E>
  boolean add(E) = java.added_to_set($0, $1)
  boolean addAll(Collection<E>) = java.added_all_to_set($0, $1)
  static Set<$T> of($T...) = {$*} @known
class java.util.HashSet<E> < Set<E>, Serializable
  new() = set()
  new(int) = set()
  new(Collection<E>) = set($1)
class java.util.LinkedHashSet<E> < Set<E>, Serializable
  new() = java.LinkedSet()
  new(Collection<E>) = java.LinkedSet($1)
class java.util.SortedSet<E> < Set<E>
  E first()
  E last()
class java.util.TreeSet<E> < SortedSet<E>, Serializable
  new() = java.TreeSet()
  new(Comparator<E>) = java.TreeSet($1)
  new(Collection<E>) = java.TreeSet($1)
class java.util.concurrent.CopyOnWriteArraySet<E> < Set<E>
  new() = java.LinkedSet()
class java.util.PriorityQueue<E> < java.util.Queue<E>
  new() = java.PriorityQueue()
  new(int) = java.PriorityQueue()
  new(Comparator<E>) = java.PriorityQueue($1)
  new(int, Comparator<E>) = java.PriorityQueue($2)
  boolean add(E)
  boolean offer(E) = $0.add($1)
  E poll()
  E peek()
  E remove() = java.require_element($0.poll())
class java.util.concurrent.BlockingQueue<E> < java.util.Queue<E>
  boolean add(E)
  boolean offer(E)
  boolean offer(E, long, TimeUnit) = $0.offer($1, $a2 * $a3)
  void put(E)
  E take()
  E poll()
  E poll(long, TimeUnit) = $0.poll($a1 * $a2)
  E peek()
  E remove()
  boolean remove(any)
  int remainingCapacity() @size
  int drainTo(Collection<E>) @size
class java.util.Arrays
  static String toString(int[]) = java.text(list($1)) @known
  static String toString(long[]) = java.text(list($1)) @known
  static String toString(double[]) = java.text(list($1)) @known
  static String toString(boolean[]) = java.text(list($1)) @known
  static String toString(char[]) = java.text(list($1)) @known
  static String toString(byte[]) = java.text([java.as_byte(each) for each in $1]) @known
  static String toString(Object[]) = java.text(list($1)) @known
  static void sort(int[]) = $1.sort()
  static void sort(long[]) = $1.sort()
  static void sort(double[]) = $1.sort(key=java.double_key)
  static void sort(char[]) = $1.sort()
  static void sort(Object[]) = java.sort($1)
  static void sort($T[], Comparator<$T>) = java.sort($1, $2)
  static void fill(int[], int) = java.fill($1, $2)
  static void fill(long[], long) = java.fill($1, $2)
  static void fill(double[], double) = java.fill($1, $2)
  static void fill(char[], char) = java.fill($1, $2)
  static void fill(boolean[], boolean) = java.fill($1, $2)
  static void fill(byte[], byte) = java.fill($1, $a2 & 0xFF)
  static void fill($T[], $T) = java.fill($1, $2)
  static boolean equals(byte[], byte[]) = $a1 == $a2
  static boolean equals(int[], int[]) = $a1 == $a2
  static boolean equals(long[], long[]) = $a1 == $a2
  static boolean equals(char[], char[]) = $a1 == $a2
  static boolean equals(String[], String[]) = $a1 == $a2
  static byte[] copyOf(byte[], int) = java.range_of($1, 0, $2, 0) @known
  static int[] copyOf(int[], int) = java.range_of($1, 0, $2, 0) @known
  static long[] copyOf(long[], int) = java.range_of($1, 0, $2, 0) @known
  static $T[] copyOf($T[], int) = java.range_of($1, 0, $2, None) @known
  static byte[] copyOfRange(byte[], int, int) = java.range_of($1, $2, $3, 0) @known
  static int[] copyOfRange(int[], int, int) = java.range_of($1, $2, $3, 0) @known
  static $T[] copyOfRange($T[], int, int) = java.range_of($1, $2, $3, None) @known
  static IntStream stream(int[]) = java.Stream($1) @known
  static Stream<$T> stream($T[]) = java.Stream($1) @known
  static int hashCode(Object[]) = java.hash_of(*$a1)
class java.util.Collections
  static List<$T> emptyList() = [] @known
  static Set<$T> emptySet() = set() @known
  static Map<$K, $V> emptyMap() = {} @known
  static List<$T> singletonList($T) = [$1] @known
  static Set<$T> singleton($T) = {$1} @known
  static Map<$K, $V> singletonMap($K, $V) = {$1: $2} @known
  static List<$T> unmodifiableList(List<$T>) = java.UnmodifiableList($1) @known
  static Collection<$T> unmodifiableCollection(Collection<$T>) = java.UnmodifiableList($1) @known
  static Set<$T> unmodifiableSet(Set<$T>) = frozenset($1) @known
  static Map<$K, $V> unmodifiableMap(Map<$K, $V>) = java.UnmodifiableMap($1) @known
  static void sort(List<$T>) = java.sort($1)
  static void sort(List<$T>, Comparator<$T>) = java.sort($1, $2)
  static void reverse(List<$T>) = $1.reverse()
  static void shuffle(List<$T>) = random.shuffle($1)
  static void shuffle(List<$T>, Random) = $2.shuffle($1)
  static void swap(List<$T>, int, int) = java.swapped($1, $2, $3)
  static $T max(Collection<$T>) = java.required(java.Stream($1).max())
  static $T max(Collection<$T>, Comparator<$T>) = java.required(java.Stream($1).max($2))
  static $T min(Collection<$T>) = java.required(java.Stream($1).min())
  static $T min(Collection<$T>, Comparator<$T>) = java.required(java.Stream($1).min($2))
  static int frequency(Collection<$T>, $T) = java.frequency($1, $2) @size
  static List<$T> nCopies(int, $T) = [$2] * $a1 @known
  static boolean addAll(List<$T>, $T...) = java.added_all($1, [$2*])
  static boolean addAll(Set<$T>, $T...) = java.added_all_to_set($1, [$2*])
  static Comparator<$T> reverseOrder() = java.reversed_order() @known
  static Comparator<$T> reverseOrder(Comparator<$T>) = java.reversed_order($1) @known
  static Enumeration<$T> enumeration(Collection<$T>) = java.enumeration($1) @known
  static List<$T> list(Enumeration<$T>) = list(java.Elements($1)) @known
  static List<$T> synchronizedList(List<$T>) = $1
  static Map<$K, $V> synchronizedMap(Map<$K, $V>) = $1
  static Set<$T> synchronizedSet(Set<$T>) = $1
"""
    + "".join(_LIST % name for name in ("ArrayList", "concurrent.CopyOnWriteArrayList"))
    + _LIST % "Vector"
    + r"""
  void addElement(E) = $0.append($1)
  E elementAt(int) = java.at($0, $1)
  E get(int) = java.vector_element($0, $1)
  E firstElement() = java.first($0)
  E lastElement() = java.last($0)
  boolean removeElement(any) = java.removed($0, $1)
  void removeAllElements() = $0.clear()
  Enumeration<E> elements() = java.enumeration($0, "Vector Enumeration") @known
class java.util.Stack<E> < Vector<E>
  new() = []
  E push(E) = java.pushed($0, $1)
  E pop() = java.popped($0)
  E peek() = java.top_of($0)
  boolean empty() = len($0) == 0
"""
    + "".join(_DEQUE % name for name in ("LinkedList", "ArrayDeque"))
    + "".join(
        _BLOCKING % name
        for name in (
            "LinkedBlockingQueue",
            "ArrayBlockingQueue",
            "LinkedBlockingDeque",
            "ConcurrentLinkedQueue",
            "ConcurrentLinkedDeque",
            "LinkedTransferQueue",
        )
    )
)
