"""Java's files and streams, dates, big numbers and regular expressions. The table is like that of `pyjms.porting.library`."""

from __future__ import annotations

from typing import Final

__all__ = ["FILES"]

_PRINTING = r"""
  void println() = $0.println()
  void println(char[]) = $0.println("".join($1))
  void println(text) = $0.println($1)
  void print(text) = $0.print($1)
"""

FILES: Final = (
    r"""
class java.io.InputStream < Closeable
  int read()
  int read(byte[]) = $0.readInto($1)
  int read(byte[], int, int) = $0.readInto($1, $2, $3)
  byte[] readAllBytes() @known
  int available() @size
  void close()
class java.io.FileInputStream < InputStream
  new(String) = java.file_input($1)
  new(File) = java.file_input($1)
class java.io.BufferedInputStream < InputStream
  new(InputStream) = $1
  new(InputStream, int) = $1
class java.io.DataInputStream < InputStream
  new(InputStream) = $1
  void readFully(byte[]) = java.read_fully($0, $1)
class java.io.ByteArrayInputStream < InputStream
  new(byte[]) = java.InputStream.of($1)
class java.io.OutputStream < Closeable
  void write(int)
  void write(byte[])
  void write(byte[], int, int)
  void flush()
  void close()
class java.io.FileOutputStream < OutputStream
  new(String) = java.file_output($1)
  new(File) = java.file_output($1)
  new(String, boolean) = java.file_output($1, $2)
  new(File, boolean) = java.file_output($1, $2)
class java.io.BufferedOutputStream < OutputStream
  new(OutputStream) = $1
class java.io.ByteArrayOutputStream < OutputStream
  new() = java.ByteArrayOutputStream()
  new(int) = java.ByteArrayOutputStream()
  byte[] toByteArray() @known
  String toString() @known
  String toString(String) @known
  int size() @size
  void reset()
class java.io.Reader < Closeable
  int read()
  int read(char[]) = $0.readInto($1)
  boolean ready()
  void close()
class java.io.InputStreamReader < Reader
  new(InputStream) = $1.reader()
  new(InputStream, String) = $1.reader($2)
  new(InputStream, Charset) = $1.reader($2)
class java.io.FileReader < InputStreamReader
  new(String) = java.file_reader($1)
  new(File) = java.file_reader($1)
class java.io.StringReader < Reader
  new(String) = java.InputStream.of($1.encode()).reader()
class java.io.BufferedReader < Reader
  new(Reader) = $1
  new(Reader, int) = $1
  String readLine()
  Stream<String> lines() = java.Stream($0.lines()) @known
class java.io.Writer < Closeable
  void write(String)
  void write(int)
  Writer append(CharSequence) = $0.append(java.text($1)) @known
  void flush()
  void close()
class java.io.OutputStreamWriter < Writer
  new(OutputStream) = $1.writer()
  new(OutputStream, String) = $1.writer($2)
  new(OutputStream, Charset) = $1.writer($2)
class java.io.FileWriter < OutputStreamWriter
  new(String) = java.file_writer($1)
  new(File) = java.file_writer($1)
  new(String, boolean) = java.file_writer($1, $2)
  new(File, boolean) = java.file_writer($1, $2)
class java.io.StringWriter < Writer
  new() = java.StringWriter()
  String toString() @known
class java.io.BufferedWriter < Writer
  new(Writer) = $1
  void newLine()
class java.io.PrintWriter < Writer
  new(Writer) = java.PrintWriter($1)
  new(Writer, boolean) = java.PrintWriter($1)
  new(OutputStream) = java.PrintWriter($1)
  new(OutputStream, boolean) = java.PrintWriter($1)
  new(String) = java.PrintWriter(java.file_writer($1))
  new(File) = java.PrintWriter(java.file_writer($1))
"""
    + _PRINTING
    + r"""
class java.io.PrintStream < OutputStream
class java.io.File < Serializable, Comparable
  String separator = "/"
  static File createTempFile(String, String) = java.temporary_file($1, $2) @known
  String pathSeparator = ":"
  new(String) = java.File($1)
  new(String, String) = java.File($1, $2)
  new(File, String) = java.File($1, $2)
  String getName() @known
  String getPath() @known
  String getParent()
  String getAbsolutePath() @known
  File getAbsoluteFile() = java.File($0.getAbsolutePath()) @known
  boolean exists()
  boolean isFile()
  boolean isDirectory()
  boolean canRead()
  long length() @size
  boolean delete()
  boolean mkdir()
  boolean mkdirs()
  boolean createNewFile()
  File[] listFiles()
  String[] list()
  Path toPath() = $0
  String toString() @known
class java.nio.file.Path
  static Path of(String) = java.File($1) @known
  static Path of(String, String) = java.File($1, $2) @known
  Path resolve(String) = java.File($0, $1) @known
  Path getFileName() = java.File($0.getName()) @known
  File toFile() = $0 @known
  String toString() @known
class java.nio.file.Paths
  static Path get(String) = java.File($1) @known
  static Path get(String, String) = java.File($1, $2) @known
class java.nio.file.Files
  static byte[] readAllBytes(Path) = java.bytes_of_file($1) @known
  static List<String> readAllLines(Path) = java.lines_of_file($1) @known
  static Stream<String> lines(Path) = java.Stream(java.lines_of_file($1)) @known
  static String readString(Path) = java.bytes_of_file($1).decode() @known
  static boolean exists(Path) = $1.exists()
  static boolean isDirectory(Path) = $1.isDirectory()
  static long size(Path) = $1.length()
  static Path write(Path, byte[]) = java.write_file($1, $2)
  static Path writeString(Path, String) = java.write_file($1, $2.encode())
  static BufferedReader newBufferedReader(Path) = java.file_reader($1) @known
  static BufferedWriter newBufferedWriter(Path) = java.file_writer($1) @known
class java.util.Date < Serializable, Comparable
  new() = java.Date(time.time_ns() // 1_000_000)
  new(long) = java.Date($1)
  long getTime() @time
  void setTime(long)
  boolean before(Date)
  boolean after(Date)
  int compareTo(Date)
  String toString() @known
class java.text.DateFormat
  String format(Date) @known
  Date parse(String) @known
class java.text.SimpleDateFormat < DateFormat
  new(String) = java.SimpleDateFormat($1)
  new(String, Locale) = java.SimpleDateFormat($1)
  String toPattern() @known
class java.math.RoundingMode
  RoundingMode UP = "UP"
  RoundingMode DOWN = "DOWN"
  RoundingMode CEILING = "CEILING"
  RoundingMode FLOOR = "FLOOR"
  RoundingMode HALF_UP = "HALF_UP"
  RoundingMode HALF_DOWN = "HALF_DOWN"
  RoundingMode HALF_EVEN = "HALF_EVEN"
  RoundingMode UNNECESSARY = "UNNECESSARY"
class java.math.BigInteger < Number, Comparable<BigInteger>
  BigInteger ZERO = java.BigInteger.ZERO
  BigInteger ONE = java.BigInteger.ONE
  BigInteger TEN = java.BigInteger.TEN
  new(String) = java.BigInteger($1)
  new(String, int) = java.BigInteger($1, $2)
  static BigInteger valueOf(long) = java.BigInteger($1) @known
  BigInteger add(BigInteger) @known
  BigInteger subtract(BigInteger) @known
  BigInteger multiply(BigInteger) @known
  BigInteger divide(BigInteger) @known
  BigInteger remainder(BigInteger) @known
  BigInteger mod(BigInteger) @known
  BigInteger gcd(BigInteger) @known
  BigInteger max(BigInteger) @known
  BigInteger min(BigInteger) @known
  BigInteger pow(int) @known
  BigInteger negate() @known
  BigInteger abs() @known
  int signum()
  int compareTo(BigInteger)
  double doubleValue() = float(int($0))
  String toString() @known
  String toString(int) @known
class java.math.BigDecimal < Number, Comparable<BigDecimal>
  BigDecimal ZERO = java.BigDecimal.ZERO
  BigDecimal ONE = java.BigDecimal.ONE
  BigDecimal TEN = java.BigDecimal.TEN
  int ROUND_UP = "UP"
  int ROUND_DOWN = "DOWN"
  int ROUND_HALF_UP = "HALF_UP"
  int ROUND_HALF_EVEN = "HALF_EVEN"
  new(String) = java.BigDecimal($1)
  new(int) = java.BigDecimal($1)
  new(long) = java.BigDecimal($1)
  new(double) = java.BigDecimal($1)
  new(BigInteger) = java.BigDecimal($1)
  new(BigInteger, int) = java.BigDecimal($1, $2)
  static BigDecimal valueOf(long) = java.BigDecimal($1) @known
  static BigDecimal valueOf(double) = java.BigDecimal(java.text_of_double($1)) @known
  static BigDecimal valueOf(long, int) = java.BigDecimal($1, $2) @known
  BigDecimal add(BigDecimal) @known
  BigDecimal subtract(BigDecimal) @known
  BigDecimal multiply(BigDecimal) @known
  BigDecimal divide(BigDecimal) @known
  BigDecimal divide(BigDecimal, RoundingMode) @known
  BigDecimal divide(BigDecimal, int, RoundingMode) @known
  BigDecimal remainder(BigDecimal) @known
  BigDecimal max(BigDecimal) @known
  BigDecimal min(BigDecimal) @known
  BigDecimal pow(int) @known
  BigDecimal setScale(int) @known
  BigDecimal setScale(int, RoundingMode) @known
  BigDecimal setScale(int, int) @known
  BigDecimal divide(BigDecimal, int, int) @known
  BigDecimal stripTrailingZeros() @known
  BigDecimal negate() @known
  BigDecimal abs() @known
  BigInteger unscaledValue() @known
  BigInteger toBigInteger() @known
  int scale()
  int precision() @size
  int signum()
  int compareTo(BigDecimal)
  String toString() @known
  String toPlainString() @known
class java.util.regex.Pattern
  int CASE_INSENSITIVE = 2
  int MULTILINE = 8
  int DOTALL = 16
  static Pattern compile(String) = java.Pattern($1) @known
  static Pattern compile(String, int) = java.Pattern($1, $2) @known
  static boolean matches(String, CharSequence) = java.matches(java.text($2), $1)
  static String quote(String) = java.quote($1) @known
  String pattern() @known
  Matcher matcher(CharSequence) = $0.matcher(java.text($1)) @known
  String[] split(CharSequence) = $0.split(java.text($1)) @known
  String toString() @known
class java.util.regex.Matcher
  boolean matches()
  boolean lookingAt()
  boolean find()
  String group()
  String group(int)
  String group(String)
  int groupCount() @size
  int start()
  int start(int)
  int end()
  int end(int)
  String replaceAll(String) @known
class javax.transaction.xa.Xid
  int MAXGTRIDSIZE = 64
  int MAXBQUALSIZE = 64
  int getFormatId()
  byte[] getGlobalTransactionId()
  byte[] getBranchQualifier()
class javax.transaction.xa.XAResource
  int TMENDRSCAN
  int TMFAIL
  int TMJOIN
  int TMNOFLAGS
  int TMONEPHASE
  int TMRESUME
  int TMSTARTRSCAN
  int TMSUCCESS
  int TMSUSPEND
  int XA_OK
  int XA_RDONLY
  void start(Xid, int)
  void end(Xid, int)
  int prepare(Xid)
  void commit(Xid, boolean)
  void rollback(Xid)
  void forget(Xid)
  Xid[] recover(int)
  boolean isSameRM(XAResource)
  int getTransactionTimeout()
  boolean setTransactionTimeout(int)
exception javax.transaction.xa.XAException < Exception
  new()
  new(String)
  new(int)
  int errorCode
  int XA_RBROLLBACK
  int XA_HEURCOM
  int XA_HEURRB
  int XA_HEURMIX
  int XA_HEURHAZ
  int XA_RBBASE
  int XAER_NOTA
  int XAER_RMERR
  int XAER_RMFAIL
  int XAER_PROTO
  int XAER_INVAL
  int XAER_DUPID
"""
)
