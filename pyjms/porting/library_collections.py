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

COLLECTIONS: Final = (
    r"""
class java.lang.Iterable<E>
  Iterator<E> iterator() = java.Iterator($0) @known
class java.util.Iterator<E>
  boolean hasNext()
  E next()
  void remove()
class java.util.Enumeration<E>
  boolean hasMoreElements()
  E nextElement()
class java.util.Collection<E> < Iterable<E>
  int size() = len($0) @size
  boolean isEmpty() = len($0) == 0
  boolean contains(any) = $a1 in $0
  boolean remove(any) = java.removed($0, $1)
  void clear()
class java.util.List<E> < Collection<E>
  boolean add(E) = java.added($0, $1)
  void add(int, E) = $0.insert(java.check_index($1, len($0) + 1), $2)
  boolean addAll(Collection<E>) = java.added_all($0, $1)
  E get(int) = $0[$i1]
  E set(int, E) = java.replaced($0, $1, $2)
  E remove(int) = $0.pop(java.check_index($1, len($0)))
  int indexOf(any) = java.index_in($0, $1)
class java.util.Deque<E> < List<E>
class java.util.Map<K, V>
  int size() = len($0) @size
  boolean isEmpty() = len($0) == 0
  V get(any) = $0.get($1)
  V getOrDefault(any, V) = $0.get($1, $2)
  V put(K, V) = java.put($0, $1, $2)
  V remove(any) = $0.pop($1, None)
  boolean containsKey(any) = $a1 in $0
  boolean containsValue(any) = $a1 in $0.values()
  void clear()
  Set<K> keySet() = $0.keys() @known
  Collection<V> values() = $0.values() @known
  Set<Entry<K, V>> entrySet() = $0.items() @known
  void putAll(Map<K, V>) = $0.update($1)
class java.util.Map.Entry<K, V>
  K getKey() = $0[0]
  V getValue() = $0[1]
class java.util.LinkedHashMap<K, V> < Map<K, V>
  new() = {}
  new(Map<K, V>) = dict($1)
class java.util.HashMap<K, V> < Map<K, V>, Serializable
  new() = {}
  new(int) = {}
  new(Map<K, V>) = dict($1)
class java.util.concurrent.ConcurrentMap<K, V> < Map<K, V>
class java.util.concurrent.ConcurrentHashMap<K, V> < ConcurrentMap<K, V>
  new() = {}
  new(int) = {}
class java.util.Hashtable<K, V> < Map<K, V>
  new() = {}
class java.util.Properties < Map<Object, Object>
  new() = {}
  String getProperty(String) = $0.get($1)
  String getProperty(String, String) = $0.get($1, $2)
  Object setProperty(String, String) = java.put($0, $1, $2)
class java.util.Set<E> < Collection<E>
  boolean add(E) = java.added_to_set($0, $1)
class java.util.HashSet<E> < Set<E>
  new() = set()
  new(Collection<E>) = set($1)
class java.util.Arrays
  static String toString(int[]) = java.text(list($1)) @known
  static String toString(String[]) = java.text($1) @known
class java.util.Collections
  static List<E> emptyList() = [] @known
"""
    + "".join(_LIST % name for name in ("ArrayList", "Vector", "concurrent.CopyOnWriteArrayList"))
    + r"""
class java.util.LinkedList<E> < Deque<E>
  new() = []
  new(Collection<E>) = list($1)
  void addLast(E) = $0.append($1)
  void addFirst(E) = $0.insert(0, $1)
  E getFirst() = java.at($0, 0)
  E removeFirst() = $0.pop(java.check_index(0, len($0)))
  E poll() = $0.pop(0) if $0 else None
  E peek() = $0[0] if $0 else None
"""
)
