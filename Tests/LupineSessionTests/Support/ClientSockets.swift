import Glibc
import LupineTesting

/// Sockets of this machine that lead to a loopback port and that somebody still holds: `/proc/net/tcp` gives closed ones no inode.
enum ClientSockets {
  static func count(to port: Int) -> Int {
    let suffix = ":" + hexadecimal(port)
    return ["/proc/net/tcp", "/proc/net/tcp6"].reduce(0) { sum, path in
      sum
        + lines(path, containing: suffix, .remote).count { fields in
          fields.count > 9 && fields[2].hasSuffix(suffix) && fields[9] != "0"
        }
    }
  }

  /// The IPv4 addresses that those come from who are connected to a loopback port, as its server sees them.
  static func peers(of port: Int) -> Set<String> {
    let suffix = ":" + hexadecimal(port)
    var peers: Set<String> = []
    for fields in lines("/proc/net/tcp", containing: suffix, .local) {
      // The state 01 is a connection that is established; the address is in the order of this machine's bytes.
      guard fields.count > 9, fields[1].hasSuffix(suffix), fields[3] == "01", fields[9] != "0",
        let bits = UInt32(fields[2].prefix(8), radix: 16)
      else { continue }
      peers.insert([0, 8, 16, 24].map { "\(bits >> UInt32($0) & 255)" }.joined(separator: "."))
    }
    return peers
  }

  private enum End { case local, remote }

  /// The fields of the lines of a port, found by the C library: there are thousands of closed sockets, and each test asks many times.
  private static func lines(_ path: String, containing suffix: String, _ end: End) -> [[Substring]] {
    var bytes = TextFile.bytes(path)
    bytes.append(0)
    var found: [[Substring]] = []
    unsafe bytes.withUnsafeBytes { buffer in
      guard let base = unsafe buffer.baseAddress?.assumingMemoryBound(to: CChar.self) else { return }
      var next = unsafe strstr(base, suffix)
      while let place = unsafe next {
        let behind = unsafe place + suffix.utf8.count
        unsafe next = strstr(behind, suffix)
        // Behind the remote end stands the state, of two digits. 06 is that of most, which nobody holds any more.
        let isRemote = unsafe behind[3] == 0x20
        guard isRemote == (end == .remote), unsafe !isRemote || behind[1] != 0x30 || behind[2] != 0x36 else { continue }
        var start = unsafe UnsafePointer(place) - base
        while start > 0, unsafe buffer[start - 1] != 0x0A { start -= 1 }
        let line = unsafe buffer[start..<start + strcspn(base + start, "\n")]
        found.append(unsafe String(decoding: line, as: UTF8.self).split(separator: " "))
      }
    }
    return found
  }

  private static func hexadecimal(_ port: Int) -> String {
    let digits = String(port, radix: 16, uppercase: true)
    return String(repeating: "0", count: max(0, 4 - digits.count)) + digits
  }
}

/// Small files, read and written by system calls.
enum TextFile {
  static func read(_ path: String) -> String { String(decoding: bytes(path), as: UTF8.self) }

  static func bytes(_ path: String) -> [UInt8] {
    let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { return [] }
    defer { close(descriptor) }
    var result: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 64 * 1024)
    while case let count = unsafe Glibc.read(descriptor, &buffer, buffer.count), count > 0 {
      result += buffer[..<count]
    }
    return result
  }
}

extension TextFile {
  /// Makes a file so long, with a hole where it grows.
  static func truncate(_ path: String, to size: Int) throws {
    guard unsafe Glibc.truncate(path, size) == 0 else { throw LoopbackError.system(call: "truncate", code: errno) }
  }
}

/// A private directory, removed with the files in it when the last reference goes.
final class ScratchDirectory: Sendable {
  let path: String

  init() throws {
    var template = Array("/tmp/lupine-tests-XXXXXX".utf8CString)
    guard unsafe mkdtemp(&template) != nil else { throw LoopbackError.system(call: "mkdtemp", code: errno) }
    path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  deinit {
    for name in names { unsafe unlink(path + "/" + name) }
    unsafe rmdir(path)
  }

  /// What is in it.
  var names: [String] { DirectoryListing.names(path) }

  /// Writes a file and returns its path.
  func write(_ bytes: [UInt8], to name: String) throws -> String {
    let file = path + "/" + name
    let descriptor = unsafe open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else { throw LoopbackError.system(call: "open", code: errno) }
    defer { close(descriptor) }
    var rest = bytes[...]
    while !rest.isEmpty {
      let count = unsafe rest.withUnsafeBytes { unsafe Glibc.write(descriptor, $0.baseAddress, $0.count) }
      guard count > 0 else { throw LoopbackError.system(call: "write", code: errno) }
      rest = rest.dropFirst(count)
    }
    return file
  }
}

extension TextFile {
  /// Removes a file, if it is there.
  static func remove(_ path: String) throws {
    guard unsafe unlink(path) == 0 || errno == ENOENT else {
      throw LoopbackError.system(call: "unlink", code: errno)
    }
  }
}
