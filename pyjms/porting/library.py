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
  Class getClass() = java.known($0) @known
class java.lang.Class
  String getName() = java.class_name($0) @known
  String getSimpleName() = java.simple_name($0) @known
class java.lang.String < Comparable, CharSequence, Serializable
  new() = ""
  new(String) = java.known($1)
  new(byte[]) = bytes($1).decode("utf-8", "replace")
  new(char[]) = "".join($1)
  new(byte[], String) = java.text_of_bytes($1, $2)
  new(byte[], Charset) = java.text_of_bytes($1, $2)
  int length() = len($0) @size
  boolean isEmpty() = len($0) == 0
  char charAt(int) = java.text_of_char_at($0, $1)
  String substring(int) = java.substring($0, $1) @known
  String substring(int, int) = java.substring($0, $1, $2) @known
  String trim() = java.trim($0) @known
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
  String repeat(int) = $0 * java.check_index($1, 1 << 31) @known
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
class java.lang.Comparable
class java.nio.charset.Charset
class java.nio.charset.StandardCharsets
  Charset UTF_8 = "UTF-8"
  Charset US_ASCII = "US-ASCII"
  Charset ISO_8859_1 = "ISO-8859-1"
class java.lang.StringBuilder < CharSequence
  new() = java.StringBuilder()
  new(int) = java.StringBuilder()
  new(String) = java.StringBuilder($1)
  StringBuilder append(text) @known
  StringBuilder insert(int, text) @known
  StringBuilder reverse() @known
  StringBuilder deleteCharAt(int) @known
  int length() @size
  void setLength(int)
  char charAt(int)
  String toString() @known
class java.lang.StringBuffer < StringBuilder
  new() = java.StringBuilder()
  new(int) = java.StringBuilder()
  new(String) = java.StringBuilder($1)
class java.lang.Number < Serializable
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
  new(long) = Long($1)
  new(String) = Long(java.parse_long($1))
  long longValue() = java.known($0)
class java.lang.Short < Number
  short MAX_VALUE = 32767
  short MIN_VALUE = -32768
class java.lang.Byte < Number
  byte MAX_VALUE = 127
  byte MIN_VALUE = -128
class java.lang.Double < Number
  static double parseDouble(String) = java.parse_double($1)
  static Double valueOf(String) = java.parse_double($1) @known
  static Double valueOf(double) = $1 @known
  static String toString(double) = java.text_of_double($1) @known
  static boolean isNaN(double) = math.isnan($1)
  double doubleValue() = java.known($0)
class java.lang.Float < Number
  static float parseFloat(String) = java.parse_float($1)
  static Float valueOf(String) = Float(java.parse_float($1)) @known
  static Float valueOf(float) = Float($1) @known
class java.lang.Boolean < Serializable
  Boolean TRUE = True
  Boolean FALSE = False
  static boolean parseBoolean(String) = java.parse_boolean($1)
  static Boolean valueOf(String) = java.parse_boolean($1) @known
  static Boolean valueOf(boolean) = $1 @known
  static boolean getBoolean(String) = java.not_ported("Boolean.getBoolean reads a system property")
  static String toString(boolean) = java.text($1) @known
  boolean booleanValue() = java.known($0)
class java.lang.Character
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
  static double abs(double) = abs($1)
  static int max(int, int) = max($1, $2)
  static long max(long, long) = max($1, $2)
  static int min(int, int) = min($1, $2)
  static long min(long, long) = min($1, $2)
class java.lang.System
  PrintStream out = sys.stdout
  PrintStream err = sys.stderr
  InputStream in = sys.stdin
  static long currentTimeMillis() = time.time_ns() // 1_000_000 @time
  static long nanoTime() = time.monotonic_ns() @nanos
  static void exit(int) = java.exit($1)
  static void gc() = None
  static void arraycopy(Object, int, Object, int, int) = java.copy_elements($*)
  static String lineSeparator() = "\n" @known
  static String getenv(String) = os.environ.get($1)
class java.io.InputStream
  int read() = java.read_byte()
class java.io.PrintStream
class java.io.Reader
class java.io.InputStreamReader < Reader
  new(InputStream) = $1
class java.io.BufferedReader < Reader
  new(Reader) = $1
  String readLine() = java.read_line()
  void close() = None
class java.util.UUID < Serializable
  static UUID randomUUID() = str(uuid.uuid4()) @known
  String toString() = $0 @known
class java.util.Random
  new() = random.Random()
  int nextInt(int) = $0.randrange($1) @size
  double nextDouble() = $0.random()
  boolean nextBoolean() = $0.random() < 0.5
class java.util.Scanner
  new(InputStream) = java.Scanner()
  boolean hasNextLine()
  String nextLine() @known
  void close() = None
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
  void sleep(long) = time.sleep($a1 * $0)
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
  String toString() @known
class java.util.concurrent.Executor
  void execute(Runnable)
class java.util.concurrent.ExecutorService < Executor
  void submit(Runnable) = $0.execute($1)
  void shutdown()
  boolean isShutdown()
  boolean awaitTermination(long, TimeUnit) = $0.awaitTermination($a1 * $a2)
class java.util.concurrent.Executors
  static ExecutorService newFixedThreadPool(int) = java.ExecutorService($1)
  static ExecutorService newSingleThreadExecutor() = java.ExecutorService(1)
  static ExecutorService newCachedThreadPool() = java.ExecutorService(1 << 31)
class java.lang.AutoCloseable
  void close()
class java.io.Closeable < AutoCloseable
class java.io.Serializable
class javax.naming.Context
  String PROVIDER_URL = "java.naming.provider.url"
  String INITIAL_CONTEXT_FACTORY = "java.naming.factory.initial"
  String SECURITY_PRINCIPAL = "java.naming.security.principal"
  String SECURITY_CREDENTIALS = "java.naming.security.credentials"
  Object lookup(String)
  void close()
class javax.naming.InitialContext < Context
  new() = InitialContext()
  new(Map) = InitialContext($1)
class java.lang.StackTraceElement
class java.lang.Throwable < Serializable
  String getMessage() = java.message_of($0)
  String getLocalizedMessage() = java.message_of($0)
  Throwable getCause() = $0.__cause__
  String toString() = java.text($0) @known
  void printStackTrace() = traceback.print_exception($0)
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
class java.lang.IllegalArgumentException < RuntimeException
  new() = IllegalArgumentException()
  new(String) = IllegalArgumentException($1)
class java.lang.NumberFormatException < IllegalArgumentException
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
class java.lang.StringIndexOutOfBoundsException < IndexOutOfBoundsException
class java.lang.ClassCastException < RuntimeException
  new(String) = java.ClassCastException($1)
class java.lang.ArithmeticException < RuntimeException
  new(String) = java.ArithmeticException($1)
class java.util.NoSuchElementException < RuntimeException
class java.lang.InterruptedException < Exception
  new(String) = java.InterruptedException($1)
class java.io.IOException < Exception
  new(String) = java.IOException($1)
class java.util.concurrent.TimeoutException < Exception
  new() = java.TimeoutException()
  new(String) = java.TimeoutException($1)
class javax.naming.NamingException < Exception
  new(String) = NamingException($1)
  Throwable getRootCause() = $0.__cause__
class javax.naming.NameNotFoundException < NamingException
class java.lang.Error < Throwable
  new() = java.Error()
  new(String) = java.Error($1)
class java.lang.AssertionError < Error
  new() = java.AssertionError()
  new(text) = java.AssertionError($1)
"""
