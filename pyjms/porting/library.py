"""Java's library in Python: a table of what JMS programs call.

A line below a class is a member as Java declares it, with types by their simple names, and after ``=`` how it is
written in Python: ``$0`` is the object, ``$1`` the first argument, ``$a1`` that argument as an operand, ``$*`` all arguments.
Without ``=`` it is written as in Java. ``text`` is an argument whose text is meant, ``any`` one of any type that is not
boxed. ``@size`` is a number from 0, ``@time`` one of milliseconds, ``@known`` an object that is never null.
"""

from __future__ import annotations

from typing import Final

__all__ = ["LIBRARY"]

LIBRARY: Final = r"""
class java.lang.Object
  new() = java.Object()
  boolean equals(any) = java.equals($0, $1)
  String toString() = java.text(java.known($0)) @known
  void notify() = java.notify_all($0)
  void notifyAll() = java.notify_all($0)
  void wait() = java.wait($0)
  void wait(long) = java.wait($0, $1)
  Class getClass() = java.class_of($0) @known
  int hashCode() = java.hash_code($0)
class java.lang.Class<T>
  String getName() @known
  String getSimpleName() @known
  String getCanonicalName() = $0.getName() @known
  String getPackageName() @known
  String toString() @known
class java.lang.String < Comparable, CharSequence, Serializable
  new() = ""
  new(String) = java.known($1)
  new(byte[]) = bytes($1).decode("utf-8", "replace")
  new(byte[], int, int) = java.text_of_bytes($a1[$2:$a2 + $3])
  new(char[], int, int) = "".join($a1[$2:$a2 + $3])
  new(StringBuilder) = $1.toString()
  new(char[]) = "".join($1)
  new(byte[], String) = java.text_of_bytes($1, $2)
  new(byte[], Charset) = java.text_of_bytes($1, $2)
  int length() = len($0) @size
  boolean isEmpty() = len($0) == 0
  char charAt(int) = java.text_of_char_at($0, $1)
  String substring(int) = java.substring($0, $1) @known
  String substring(int, int) = java.substring($0, $1, $2) @known
  String trim() = java.trim($0) @known
  String strip() = $0.strip() @known
  boolean isBlank() = java.is_blank($0)
  int hashCode() = java.hash_of_text($0)
  boolean matches(String) = java.matches($0, $1)
  String replaceAll(String, String) = java.replace_all_matches($0, $1, $2) @known
  String replaceFirst(String, String) = java.replace_first_match($0, $1, $2) @known
  int compareToIgnoreCase(String) = java.compare_ignoring_case($0, $1)
  boolean contentEquals(CharSequence) = $0 == java.text($1)
  boolean startsWith(String, int) = $0.startswith($1, $2)
  CharSequence subSequence(int, int) = java.substring($0, $1, $2) @known
  IntStream chars() = java.Stream(map(ord, $0)) @known
  Stream<String> lines() = java.Stream($0.splitlines()) @known
  String formatted(any...) = java.format($0, $*) @known
  int codePointAt(int) = ord(java.text_of_char_at($0, $1))
  static String copyValueOf(char[]) = "".join($1) @known
  static String valueOf(char[]) = "".join($1) @known
  static String join(String, Collection<String>) = $1.join($2) @known
  String toUpperCase(Locale) = $0.upper() @known
  String toLowerCase(Locale) = $0.lower() @known
  String toUpperCase() = $0.upper() @known
  String toLowerCase() = $0.lower() @known
  String concat(String) = $0 + $a1 @known
  String intern() = $0
  String toString() = java.known($0) @known
  boolean equals(any) = java.equals($0, $1)
  boolean equalsIgnoreCase(String) = java.equals_ignore_case($0, $1)
  int compareTo(String) = java.compare($0, $1)
  boolean startsWith(String) = $0.startswith($1)
  boolean endsWith(String) = $0.endswith($1)
  boolean contains(String) = $a1 in $0
  int indexOf(String) = $0.find($1)
  int indexOf(char) = $0.find($1)
  int indexOf(String, int) = java.index_of($0, $1, $2)
  int indexOf(char, int) = java.index_of($0, $1, $2)
  int lastIndexOf(String) = $0.rfind($1)
  int lastIndexOf(char) = $0.rfind($1)
  String replace(char, char) = $0.replace($1, $2) @known
  String replace(String, String) = $0.replace($1, $2) @known
  String repeat(int) = java.repeated($0, $1) @known
  String[] split(String) = java.split($0, $1) @known
  String[] split(String, int) = java.split($0, $1, $2) @known
  byte[] getBytes() = java.bytes_of($0) @known
  byte[] getBytes(String) = java.bytes_of($0, $1) @known
  byte[] getBytes(Charset) = java.bytes_of($0, $1) @known
  char[] toCharArray() = list($0) @known
  static String valueOf(text) = $1 @known
  static String join(String, String...) = $1.join([$2*])
  static String format(String, any...) = java.format($*) @known
class java.lang.CharSequence
  int length() = len(java.text($0)) @size
  String toString() = java.text($0) @known
class java.lang.Comparable<T>
  int compareTo(T) = java.natural($0, $1)
class java.util.Locale
  Locale US = None
  Locale ENGLISH = None
  Locale ROOT = None
  Locale UK = None
class java.nio.charset.Charset
  static Charset forName(String) = java.charset_for_name($1) @known
  static Charset defaultCharset() = "UTF-8" @known
  String name() = $0 @known
  String toString() = $0 @known
class java.nio.charset.StandardCharsets
  Charset UTF_8 = "UTF-8"
  Charset US_ASCII = "US-ASCII"
  Charset ISO_8859_1 = "ISO-8859-1"
  Charset UTF_16 = "UTF-16"
  Charset UTF_16BE = "UTF-16BE"
  Charset UTF_16LE = "UTF-16LE"
class java.lang.StringBuilder < CharSequence
  new() = java.StringBuilder()
  new(int) = java.StringBuilder()
  new(String) = java.StringBuilder($1)
  StringBuilder append(char[]) = $0.append("".join($1)) @known
  StringBuilder append(char[], int, int) = $0.append("".join($a1[$2:$a2 + $3])) @known
  StringBuilder append(text) @known
  StringBuilder insert(int, text) @known
  StringBuilder reverse() @known
  StringBuilder deleteCharAt(int) @known
  int length() @size
  void setLength(int)
  int capacity() = $0.length() @size
  void setCharAt(int, char)
  StringBuilder delete(int, int) @known
  StringBuilder replace(int, int, String) @known
  String substring(int) @known
  String substring(int, int) @known
  int indexOf(String)
  boolean isEmpty() = $0.length() == 0
  char charAt(int)
  String toString() @known
class java.lang.StringBuffer < StringBuilder
  new() = java.StringBuilder()
  new(int) = java.StringBuilder()
  new(String) = java.StringBuilder($1)
class java.lang.Number < Serializable
  float floatValue() = java.as_single(float($0))
  short shortValue() = java.as_short(int($0))
  byte byteValue() = java.as_byte(int($0))
  int intValue() = java.as_int(int($0))
  long longValue() = java.as_long(int($0))
  double doubleValue() = float($0)
class java.lang.Integer < Number, Comparable
  int MAX_VALUE = 2147483647
  int MIN_VALUE = -2147483648
  static int parseInt(String) = java.parse_int($1)
  static int parseInt(String, int) = java.parse_int($1, $2)
  static Integer valueOf(String) = java.parse_int($1) @known
  static Integer valueOf(int) = $1 @known
  static String toString(int) = str($1) @known
  static int max(int, int) = max($1, $2)
  static int min(int, int) = min($1, $2)
  static int compare(int, int) = java.compared($1, $2)
  static int sum(int, int) = java.as_int($a1 + $a2)
  static int signum(int) = java.compared($1, 0)
  static int hashCode(int) = $1
  static Integer decode(String) = java.decode_int($1) @known
  static Integer valueOf(String, int) = java.parse_int($1, $2) @known
  static int parseUnsignedInt(String) = java.as_int(java.parse_long($1))
  static int bitCount(int) = ($a1 & 0xFFFFFFFF).bit_count()
  static String toString(int, int) = java.BigInteger($1).toString($2) @known
  static String toBinaryString(int) = f"{$a1 & 0xFFFFFFFF:b}" @known
  static String toOctalString(int) = f"{$a1 & 0xFFFFFFFF:o}" @known
  static Integer getInteger(String) = java.parse_int(os.environ.get($1))
  int SIZE = 32
  int BYTES = 4
  static String toHexString(int) = f"{$a1 & 0xFFFFFFFF:x}" @known
  new(int) = $1
  new(String) = java.parse_int($1)
  int intValue() = java.known($0)
  long longValue() = java.known($0)
  int compareTo(Integer) = java.compared($0, $1)
class java.lang.Long < Number, Comparable
  long MAX_VALUE = 9223372036854775807
  long MIN_VALUE = -9223372036854775808
  static long parseLong(String) = java.parse_long($1)
  static Long valueOf(String) = Long(java.parse_long($1)) @known
  static Long valueOf(long) = Long($1) @known
  static String toString(long) = str($1) @known
  static int compare(long, long) = java.compared($1, $2)
  static long max(long, long) = max($1, $2)
  static long min(long, long) = min($1, $2)
  static long sum(long, long) = java.as_long($a1 + $a2)
  static int signum(long) = java.compared($1, 0)
  static int hashCode(long) = java.hash_code(Long($1))
  static String toHexString(long) = f"{$a1 & 0xFFFFFFFFFFFFFFFF:x}" @known
  static String toBinaryString(long) = f"{$a1 & 0xFFFFFFFFFFFFFFFF:b}" @known
  static long parseLong(String, int) = java.parse_long($1, $2)
  int compareTo(Long) = java.compared($0, $1)
  int intValue() = java.as_int(java.known($0))
  int SIZE = 64
  int BYTES = 8
  new(long) = Long($1)
  new(String) = Long(java.parse_long($1))
  long longValue() = java.known($0)
class java.lang.Short < Number
  static short parseShort(String) = java.parse_short($1)
  static Short valueOf(String) = Short(java.parse_short($1)) @known
  static Short valueOf(short) = Short($1) @known
  static String toString(short) = str($1) @known
  new(short) = Short($1)
  new(String) = Short(java.parse_short($1))
  short shortValue() = java.known($0)
  short MAX_VALUE = 32767
  short MIN_VALUE = -32768
class java.lang.Byte < Number
  static byte parseByte(String) = java.parse_byte($1)
  static Byte valueOf(String) = Byte(java.parse_byte($1)) @known
  static Byte valueOf(byte) = Byte($1) @known
  static String toString(byte) = str($1) @known
  static int toUnsignedInt(byte) = $a1 & 0xFF
  new(byte) = Byte($1)
  new(String) = Byte(java.parse_byte($1))
  byte byteValue() = java.known($0)
  byte MAX_VALUE = 127
  byte MIN_VALUE = -128
class java.lang.Double < Number
  static double parseDouble(String) = java.parse_double($1)
  static Double valueOf(String) = java.parse_double($1) @known
  static Double valueOf(double) = $1 @known
  static String toString(double) = java.text_of_double($1) @known
  static boolean isNaN(double) = math.isnan($1)
  static boolean isInfinite(double) = math.isinf($1)
  static int compare(double, double) = java.compared_doubles($1, $2)
  static double max(double, double) = java.greater($1, $2)
  static double min(double, double) = java.smaller($1, $2)
  static double sum(double, double) = $a1 + $a2
  double MAX_VALUE = 1.7976931348623157e308
  double MIN_VALUE = 5e-324
  double POSITIVE_INFINITY = math.inf
  double NEGATIVE_INFINITY = -math.inf
  double NaN = math.nan
  new(double) = $1
  new(String) = java.parse_double($1)
  int intValue() = java.to_int(java.known($0))
  long longValue() = java.to_long(java.known($0))
  int compareTo(Double) = java.compared_doubles(java.known($0), java.known($1))
  boolean isNaN() = math.isnan(java.known($0))
  double doubleValue() = java.known($0)
class java.lang.Float < Number
  static float parseFloat(String) = java.parse_float($1)
  static Float valueOf(String) = Float(java.parse_float($1)) @known
  static Float valueOf(float) = Float($1) @known
  static String toString(float) = java.text_of_float($1) @known
  static int compare(float, float) = java.compared_doubles($1, $2)
  float MAX_VALUE = 3.4028234663852886e38
  float MIN_VALUE = 1.401298464324817e-45
  new(float) = Float($1)
  new(double) = Float(java.as_single($1))
  new(String) = Float(java.parse_float($1))
  float floatValue() = java.known($0)
class java.lang.Boolean < Serializable
  Boolean TRUE = True
  Boolean FALSE = False
  static boolean parseBoolean(String) = java.parse_boolean($1)
  static Boolean valueOf(String) = java.parse_boolean($1) @known
  static Boolean valueOf(boolean) = $1 @known
  static boolean getBoolean(String) = java.parse_boolean(os.environ.get($1))
  static int compare(boolean, boolean) = java.compared($1, $2)
  static boolean logicalAnd(boolean, boolean) = $a1 and $a2
  static boolean logicalOr(boolean, boolean) = $a1 or $a2
  new(boolean) = $1
  new(String) = java.parse_boolean($1)
  int compareTo(Boolean) = java.compared($0, $1)
  static String toString(boolean) = java.text($1) @known
  boolean booleanValue() = java.known($0)
class java.lang.Character < Serializable
  char MAX_VALUE = "\uffff"
  char MIN_VALUE = "\0"
  static boolean isLetterOrDigit(char) = $1.isalnum()
  static boolean isWhitespace(char) = $1.isspace()
  static boolean isSpaceChar(char) = $1.isspace()
  static boolean isUpperCase(char) = $1.isupper()
  static boolean isLowerCase(char) = $1.islower()
  static boolean isAlphabetic(int) = chr($1).isalpha()
  static int getNumericValue(char) = int($1, 36)
  static int compare(char, char) = ord($1) - ord($2)
  new(char) = Char($1)
  static boolean isDigit(char) = $1.isdecimal()
  static boolean isLetter(char) = $1.isalpha()
  static char toUpperCase(char) = java.upper($1)
  static char toLowerCase(char) = java.lower($1)
  static String toString(char) = $1 @known
  static Character valueOf(char) = Char($1) @known
  char charValue() = java.known($0)
class java.lang.Math
  double PI = math.pi
  double E = math.e
  static double random() = random.random()
  static int abs(int) = java.as_int(abs($1))
  static long abs(long) = java.as_long(abs($1))
  static float abs(float) = abs($1)
  static double abs(double) = abs($1)
  static int max(int, int) = max($1, $2)
  static long max(long, long) = max($1, $2)
  static float max(float, float) = java.greater($1, $2)
  static double max(double, double) = java.greater($1, $2)
  static int min(int, int) = min($1, $2)
  static long min(long, long) = min($1, $2)
  static float min(float, float) = java.smaller($1, $2)
  static double min(double, double) = java.smaller($1, $2)
  static double sqrt(double) = java.math_of(math.sqrt, $1)
  static double cbrt(double) = math.cbrt($1)
  static double pow(double, double) = java.power($1, $2)
  static double exp(double) = java.math_of(math.exp, $1)
  static double log(double) = java.logarithm(math.log, $1)
  static double log10(double) = java.logarithm(math.log10, $1)
  static double sin(double) = java.math_of(math.sin, $1)
  static double cos(double) = java.math_of(math.cos, $1)
  static double tan(double) = java.math_of(math.tan, $1)
  static double asin(double) = java.math_of(math.asin, $1)
  static double acos(double) = java.math_of(math.acos, $1)
  static double atan(double) = math.atan($1)
  static double atan2(double, double) = math.atan2($1, $2)
  static double hypot(double, double) = math.hypot($1, $2)
  static double toRadians(double) = math.radians($1)
  static double toDegrees(double) = math.degrees($1)
  static double floor(double) = java.whole(math.floor, $1)
  static double ceil(double) = java.whole(math.ceil, $1)
  static double rint(double) = java.whole(round, $1)
  static int round(float) = java.to_int(math.floor($a1 + 0.5))
  static long round(double) = java.rounded($1)
  static double signum(double) = java.signum($1)
  static int floorDiv(int, int) = java.as_int(java.floor_divide($1, $2))
  static long floorDiv(long, long) = java.as_long(java.floor_divide($1, $2))
  static int floorMod(int, int) = java.floor_remainder($1, $2)
  static long floorMod(long, long) = java.floor_remainder($1, $2)
  static int addExact(int, int) = java.to_int_exact($a1 + $a2)
  static long addExact(long, long) = java.to_int_exact($a1 + $a2, 64)
  static int subtractExact(int, int) = java.to_int_exact($a1 - $a2)
  static long subtractExact(long, long) = java.to_int_exact($a1 - $a2, 64)
  static int multiplyExact(int, int) = java.to_int_exact($a1 * $a2)
  static long multiplyExact(long, long) = java.to_int_exact($a1 * $a2, 64)
  static int toIntExact(long) = java.to_int_exact($1)
class java.lang.System
  PrintStream out = sys.stdout
  PrintStream err = sys.stderr
  InputStream in = java.standard_input()
  static long currentTimeMillis() = time.time_ns() // 1_000_000 @time
  static long nanoTime() = time.monotonic_ns() @nanos
  static void exit(int) = java.exit($1)
  static void gc() = None
  static void arraycopy(Object, int, Object, int, int) = java.copy_elements($*)
  static String lineSeparator() = "\n" @known
  static String getenv(String) = os.environ.get($1)
  static Map<String, String> getenv() = dict(os.environ) @known
  static int identityHashCode(Object) = java.as_int(id($1))
class java.lang.Runtime
  static Runtime getRuntime() = None
  void addShutdownHook(Thread) = java.add_shutdown_hook($1)
  int availableProcessors() = os.cpu_count() or 1
  void gc() = None
  void exit(int) = java.exit($1)
class java.util.UUID < Serializable, Comparable<UUID>
  static UUID randomUUID() = str(uuid.uuid4()) @known
  static UUID fromString(String) = java.parse_uuid($1) @known
  static UUID nameUUIDFromBytes(byte[]) = java.uuid_of_bytes($1) @known
  String toString() = $0 @known
class java.util.Random
  new() = random.Random()
  int nextInt() = $0.randrange(-(1 << 31), 1 << 31)
  long nextLong() = $0.randrange(-(1 << 63), 1 << 63)
  float nextFloat() = java.as_single($0.random())
  double nextGaussian() = $0.gauss(0, 1)
  int nextInt(int, int) = $0.randrange($1, $2)
  void nextBytes(byte[]) = java.random_bytes($0, $1)
  int nextInt(int) = $0.randrange(java.positive_bound($1)) @size
  double nextDouble() = $0.random()
  boolean nextBoolean() = $0.random() < 0.5
class java.util.Scanner < Closeable
  new(InputStream) = java.Scanner($1)
  new(String) = java.Scanner($1)
  new(File) = java.Scanner(java.file_reader($1))
  new(Reader) = java.Scanner($1)
  boolean hasNextLine()
  String nextLine() @known
  boolean hasNext()
  boolean hasNextInt()
  String next() @known
  int nextInt()
  long nextLong()
  double nextDouble()
  boolean nextBoolean()
  void close()
class java.util.StringTokenizer
  new(String) = java.enumeration($1.split())
  new(String, String) = java.enumeration(java.tokens($1, $2))
  boolean hasMoreTokens() = $0.hasMoreElements()
  boolean hasMoreElements()
  String nextToken() = $0.nextElement() @known
  Object nextElement()
  int countTokens() = $0.count() @size
class java.lang.Runnable
  void run() = java.run($0)
class java.util.concurrent.Callable<V>
  V call() = java.run($0)
class java.lang.Thread < Runnable
  new() = java.Thread()
  new(Runnable) = java.Thread($1)
  new(Runnable, String) = java.Thread($1, $2)
  new(String) = java.Thread($1)
  void run()
  void start()
  void join()
  void join(long)
  boolean isAlive()
  boolean isDaemon()
  long getId()
  void setPriority(int)
  void interrupt()
  boolean isInterrupted()
  int MAX_PRIORITY = 10
  int NORM_PRIORITY = 5
  int MIN_PRIORITY = 1
  static Thread currentThread() = java.current_thread() @known
  static boolean interrupted() = java.was_interrupted()
  static void onSpinWait() = time.sleep(0)
  String getName() @known
  void setName(String)
  void setDaemon(boolean)
  static void sleep(long) = time.sleep($a1 / 1000)
  static void yield() = time.sleep(0)
class java.util.concurrent.TimeUnit
  TimeUnit NANOSECONDS = 1e-9
  TimeUnit MICROSECONDS = 1e-6
  TimeUnit MILLISECONDS = 0.001
  TimeUnit SECONDS = 1
  TimeUnit MINUTES = 60
  TimeUnit HOURS = 3600
  TimeUnit DAYS = 86400
  void sleep(long) = java.sleep(int($a1 * $0 * 1000))
  long toMillis(long) = int($a1 * $0 * 1000)
  long toSeconds(long) = int($a1 * $0)
  long toMinutes(long) = int($a1 * $0 // 60)
class java.util.concurrent.CountDownLatch
  new(int) = java.CountDownLatch($1)
  void countDown()
  long getCount() @size
  void await() = $0.await_()
  boolean await(long, TimeUnit) = $0.await_($a1 * $a2)
class java.util.concurrent.atomic.AtomicInteger
  new() = java.AtomicNumber()
  new(int) = java.AtomicNumber($1)
  int get()
  int intValue() = $0.get()
  void set(int)
  int getAndSet(int)
  int addAndGet(int)
  int getAndAdd(int)
  int incrementAndGet()
  int updateAndGet(IntUnaryOperator) = $0.update($1)
  int accumulateAndGet(int, IntBinaryOperator) = $0.accumulate($1, $2)
  void lazySet(int) = $0.set($1)
  long longValue() = $0.get()
  int decrementAndGet()
  int getAndIncrement()
  int getAndDecrement()
  boolean compareAndSet(int, int)
  String toString() @known
class java.util.concurrent.atomic.AtomicLong
  new() = java.AtomicNumber(0, 64)
  new(long) = java.AtomicNumber($1, 64)
  long get()
  long longValue() = $0.get()
  void set(long)
  long getAndSet(long)
  long addAndGet(long)
  long getAndAdd(long)
  long incrementAndGet()
  long decrementAndGet()
  long getAndIncrement()
  long getAndDecrement()
  boolean compareAndSet(long, long)
  String toString() @known
class java.util.concurrent.atomic.AtomicBoolean
  new() = java.AtomicBoolean()
  new(boolean) = java.AtomicBoolean($1)
  boolean get()
  void set(boolean)
  boolean getAndSet(boolean)
  boolean compareAndSet(boolean, boolean)
  String toString() @known
class java.util.concurrent.atomic.AtomicReference<V>
  new() = java.AtomicReference()
  new(V) = java.AtomicReference($1)
  V get()
  void set(V)
  V getAndSet(V)
  boolean compareAndSet(V, V)
  String toString() @known
class java.util.concurrent.Executor
  void execute(Runnable)
class java.util.concurrent.Future<V>
  V get()
  V get(long, TimeUnit) = $0.get($a1 * $a2)
  boolean isDone()
  boolean isCancelled()
  boolean cancel(boolean)
class java.util.concurrent.ScheduledFuture<V> < Future<V>
class java.util.concurrent.FutureTask<V> < Future<V>
class java.util.concurrent.CompletableFuture<V> < Future<V>
  new() = java.Future()
  boolean complete(V)
  boolean completeExceptionally(Throwable) = $0.fail($1)
  V join() = $0.get()
class java.util.concurrent.ExecutorService < Executor
  Future<$T> submit(Callable<$T>)
  Future<Object> submit(Runnable)
  List<Future<$T>> invokeAll(Collection<Callable<$T>>)
  void shutdown()
  List<Runnable> shutdownNow()
  boolean isShutdown()
  boolean isTerminated()
  boolean awaitTermination(long, TimeUnit) = $0.awaitTermination($a1 * $a2)
class java.util.concurrent.ScheduledExecutorService < ExecutorService
  ScheduledFuture<Object> schedule(Runnable, long, TimeUnit) = $0.schedule($1, $a2 * $a3)
  ScheduledFuture<Object> scheduleAtFixedRate(Runnable, long, long, TimeUnit) = $0.schedule($1, $a2 * $a4, $a3 * $a4, rate=True)
  ScheduledFuture<Object> scheduleWithFixedDelay(Runnable, long, long, TimeUnit) = $0.schedule($1, $a2 * $a4, $a3 * $a4)
class java.util.concurrent.ThreadPoolExecutor < ExecutorService
class java.util.concurrent.Executors
  static ExecutorService newFixedThreadPool(int) = java.ExecutorService($1)
  static ExecutorService newSingleThreadExecutor() = java.ExecutorService(1)
  static ExecutorService newCachedThreadPool() = java.ExecutorService(1 << 31)
  static ExecutorService newWorkStealingPool() = java.ExecutorService(os.cpu_count() or 1)
  static ScheduledExecutorService newScheduledThreadPool(int) = java.ExecutorService($1)
  static ScheduledExecutorService newSingleThreadScheduledExecutor() = java.ExecutorService(1)
class java.util.concurrent.locks.Lock
  void lock()
  void unlock()
  boolean tryLock()
  boolean tryLock(long, TimeUnit) = $0.tryLock($a1 * $a2)
  Condition newCondition() @known
class java.util.concurrent.locks.ReentrantLock < Lock
  new() = java.Lock()
  new(boolean) = java.Lock($1)
class java.util.concurrent.locks.Condition
  void await() = $0.await_()
  boolean await(long, TimeUnit) = $0.await_($a1 * $a2)
  void signal()
  void signalAll()
class java.util.concurrent.Semaphore
  new(int) = java.Semaphore($1)
  void acquire()
  void acquire(int)
  boolean tryAcquire()
  boolean tryAcquire(long, TimeUnit) = $0.tryAcquire($a1 * $a2)
  void release()
  void release(int)
  int availablePermits() @size
class java.util.concurrent.ThreadLocalRandom < Random
  static ThreadLocalRandom current() = random.Random() @known
class java.util.TimerTask < Runnable
class java.util.Timer
  new() = java.Timer()
  new(boolean) = java.Timer($1)
  new(String) = java.Timer()
  new(String, boolean) = java.Timer($2)
  void schedule(TimerTask, long)
  void schedule(TimerTask, long, long)
  void scheduleAtFixedRate(TimerTask, long, long) = $0.schedule($1, $2, $3)
  void cancel()
class java.lang.ThreadLocal<T>
  new() = java.ThreadLocal()
  T get()
  void set(T)
  void remove()
class java.util.Objects
  static boolean equals(Object, Object) = java.all_equal($1, $2)
  static int hash(Object...) = java.hash_of($*)
  static int hashCode(Object) = 0 if $1 is None else java.hash_code($1)
  static boolean isNull(Object) = $a1 is None
  static boolean nonNull(Object) = $a1 is not None
  static $T requireNonNull($T) = java.require_non_null($1) @known
  static $T requireNonNull($T, String) = java.require_non_null($1, $2) @known
  static $T requireNonNullElse($T, $T) = java.put_in_place($1, $2) @known
  static String toString(Object) = java.text($1) @known
  static String toString(Object, String) = java.text(java.put_in_place($1, $2)) @known
class java.lang.AutoCloseable
  void close()
class java.io.Closeable < AutoCloseable
class java.io.Serializable
class javax.naming.Context
  String PROVIDER_URL = "java.naming.provider.url"
  String INITIAL_CONTEXT_FACTORY = "java.naming.factory.initial"
  String SECURITY_PRINCIPAL = "java.naming.security.principal"
  String SECURITY_CREDENTIALS = "java.naming.security.credentials"
  String URL_PKG_PREFIXES = "java.naming.factory.url.pkgs"
  String SECURITY_AUTHENTICATION = "java.naming.security.authentication"
  Object lookup(String)
  void close()
class javax.naming.InitialContext < Context
  new() = InitialContext()
  new(Map) = InitialContext($1)
class java.lang.StackTraceElement
class java.lang.Throwable < Serializable
  new() = java.Exception()
  new(String) = java.Exception($1)
  String getMessage() = java.message_of($0)
  String getLocalizedMessage() = java.message_of($0)
  Throwable getCause() = $0.__cause__
  Throwable initCause(Throwable) = java.with_cause($0, $1) @known
  void addSuppressed(Throwable) = $0.add_note(java.text($1))
  String toString() = java.text($0) @known
  void printStackTrace() = traceback.print_exception($0)
  void printStackTrace(PrintWriter) = java.stack_trace_to($0, $1)
class java.lang.Exception < Throwable
  new() = java.Exception()
  new(String) = java.Exception($1)
  new(String, Throwable) = java.Exception($1, $2)
  new(Throwable) = java.Exception($1)
class java.lang.RuntimeException < Exception
  new() = java.RuntimeException()
  new(String) = java.RuntimeException($1)
  new(String, Throwable) = java.RuntimeException($1, $2)
  new(Throwable) = java.RuntimeException($1)
class java.lang.IllegalStateException < RuntimeException
  new() = java.IllegalStateException()
  new(String) = java.IllegalStateException($1)
  new(String, Throwable) = java.IllegalStateException($1, $2)
  new(Throwable) = java.IllegalStateException($1)
class java.lang.SecurityException < RuntimeException
  new() = java.SecurityException()
  new(String) = java.SecurityException($1)
  new(String, Throwable) = java.SecurityException($1, $2)
  new(Throwable) = java.SecurityException($1)
class java.lang.IllegalMonitorStateException < RuntimeException
  new() = java.IllegalMonitorStateException()
  new(String) = java.IllegalMonitorStateException($1)
class java.lang.NegativeArraySizeException < RuntimeException
  new() = java.NegativeArraySizeException()
  new(String) = java.NegativeArraySizeException($1)
class java.lang.ClassCastException < RuntimeException
  new() = java.ClassCastException()
  new(String) = java.ClassCastException($1)
class java.lang.ArithmeticException < RuntimeException
  new() = java.ArithmeticException()
  new(String) = java.ArithmeticException($1)
class java.lang.InterruptedException < Exception
  new() = java.InterruptedException()
  new(String) = java.InterruptedException($1)
class java.lang.ClassNotFoundException < Exception
  new() = java.ClassNotFoundException()
  new(String) = java.ClassNotFoundException($1)
class java.lang.CloneNotSupportedException < Exception
  new() = java.CloneNotSupportedException()
  new(String) = java.CloneNotSupportedException($1)
class java.io.IOException < Exception
  new() = java.IOException()
  new(String) = java.IOException($1)
  new(String, Throwable) = java.IOException($1, $2)
  new(Throwable) = java.IOException($1)
class java.io.FileNotFoundException < IOException
  new() = java.FileNotFoundException()
  new(String) = java.FileNotFoundException($1)
class java.io.EOFException < IOException
  new() = java.EOFException()
  new(String) = java.EOFException($1)
class java.io.UnsupportedEncodingException < IOException
  new() = java.UnsupportedEncodingException()
  new(String) = java.UnsupportedEncodingException($1)
class java.nio.file.NoSuchFileException < IOException
  new(String) = java.NoSuchFileException($1)
class java.io.UncheckedIOException < RuntimeException
  new(String, Throwable) = java.UncheckedIOException($1, $2)
  new(Throwable) = java.UncheckedIOException($1)
class java.text.ParseException < Exception
  new(String, int) = java.ParseException($1)
class java.util.ConcurrentModificationException < RuntimeException
  new() = java.ConcurrentModificationException()
  new(String) = java.ConcurrentModificationException($1)
class java.util.EmptyStackException < RuntimeException
  new() = java.EmptyStackException()
class java.util.concurrent.TimeoutException < Exception
  new() = java.TimeoutException()
  new(String) = java.TimeoutException($1)
class java.util.concurrent.ExecutionException < Exception
  new(String, Throwable) = java.ExecutionException($1, $2)
  new(Throwable) = java.ExecutionException($1)
class java.util.concurrent.RejectedExecutionException < RuntimeException
  new() = java.RejectedExecutionException()
  new(String) = java.RejectedExecutionException($1)
class java.util.concurrent.CancellationException < IllegalStateException
  new() = java.CancellationException()
  new(String) = java.CancellationException($1)
class java.util.concurrent.BrokenBarrierException < Exception
  new() = java.BrokenBarrierException()
  new(String) = java.BrokenBarrierException($1)
class java.time.DateTimeException < RuntimeException
  new(String) = java.DateTimeException($1)
class java.time.format.DateTimeParseException < DateTimeException
class java.lang.IllegalArgumentException < RuntimeException
  new(String, Throwable) = java.with_cause(IllegalArgumentException($1), $2)
  new(Throwable) = java.with_cause(IllegalArgumentException(java.text($1)), $1)
  new() = IllegalArgumentException()
  new(String) = IllegalArgumentException($1)
class java.lang.NumberFormatException < IllegalArgumentException
  new() = NumberFormatException()
  new(String) = NumberFormatException($1)
class java.lang.NullPointerException < RuntimeException
  new() = NullPointerException()
  new(String) = NullPointerException($1)
class java.lang.UnsupportedOperationException < RuntimeException
  new() = UnsupportedOperationException()
  new(String) = UnsupportedOperationException($1)
class java.lang.IndexOutOfBoundsException < RuntimeException
  new() = IndexOutOfBoundsException()
  new(String) = IndexOutOfBoundsException($1)
class java.lang.ArrayIndexOutOfBoundsException < IndexOutOfBoundsException
  new() = java.ArrayIndexOutOfBoundsException()
  new(String) = java.ArrayIndexOutOfBoundsException($1)
class java.lang.StringIndexOutOfBoundsException < IndexOutOfBoundsException
  new() = java.StringIndexOutOfBoundsException()
  new(String) = java.StringIndexOutOfBoundsException($1)
class java.lang.IllegalThreadStateException < IllegalArgumentException
  new() = java.IllegalThreadStateException()
  new(String) = java.IllegalThreadStateException($1)
class java.util.IllegalFormatException < IllegalArgumentException
class java.util.regex.PatternSyntaxException < IllegalArgumentException
class java.nio.charset.UnsupportedCharsetException < IllegalArgumentException
  new(String) = java.UnsupportedCharsetException($1)
class java.util.NoSuchElementException < RuntimeException
  new() = NoSuchElementException()
  new(String) = NoSuchElementException($1)
class java.util.InputMismatchException < NoSuchElementException
  new() = java.InputMismatchException()
  new(String) = java.InputMismatchException($1)
class javax.naming.NamingException < Exception
  new() = NamingException()
  new(String) = NamingException($1)
  Throwable getRootCause() = $0.__cause__
  String getExplanation() = $0.getMessage()
class javax.naming.NameNotFoundException < NamingException
  new() = NameNotFoundException()
  new(String) = NameNotFoundException($1)
class java.lang.Error < Throwable
  new() = java.Error()
  new(String) = java.Error($1)
  new(String, Throwable) = java.Error($1, $2)
class java.lang.AssertionError < Error
  new() = java.AssertionError()
  new(text) = java.AssertionError($1)
class java.lang.Enum < Comparable, Serializable
  String name() @known
  int ordinal() @size
  String toString() @known
  int compareTo(any)
class org.apache.activemq.ActiveMQConnection < Connection
  String DEFAULT_USER = None
  String DEFAULT_PASSWORD = None
  String DEFAULT_BROKER_URL = "tcp://localhost:61616"
  String DEFAULT_BROKER_BIND_URL = "tcp://localhost:61616"
class org.apache.activemq.ActiveMQSession < Session
  int INDIVIDUAL_ACKNOWLEDGE = 4
class pyjms.AnyConnectionFactory < QueueConnectionFactory, TopicConnectionFactory, Serializable
class pyjms.AnyXAConnectionFactory < XAQueueConnectionFactory, XATopicConnectionFactory, AnyConnectionFactory
"""
