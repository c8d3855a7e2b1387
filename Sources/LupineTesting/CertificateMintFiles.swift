internal import Glibc

/// Where a minted certificate was written. Every file has mode 0600, the directory 0700.
public struct MintedFiles: Sendable, Hashable {
  /// The private directory that holds the files.
  public let directory: String

  /// The certificate alone, PEM.
  public var certificatePath: String { directory + "/certificate.pem" }
  /// The certificate and its intermediates, PEM.
  public var chainPath: String { directory + "/chain.pem" }
  /// The private key, PKCS #8 PEM. Absent when only a root was written.
  public var privateKeyPath: String { directory + "/key.pem" }

  init(in parent: String) throws(MintError) {
    guard let directory = TemporaryDirectory.make(parent + "/lupine-mint-") else {
      throw MintError(operation: "mkdtemp in \(parent)", reason: Self.systemReason())
    }
    self.directory = directory
  }

  /// Writes one more file into the directory, mode 0600.
  ///
  /// - Returns: its path.
  /// - Throws: `MintError` with the system's reason, also when the file exists.
  public func add(_ text: String, name: String) throws(MintError) -> String {
    let path = directory + "/" + name
    try Self.write(text, to: path)
    return path
  }

  /// Removes the files and the directory; missing files are no error.
  public func remove() {
    guard let stream = unsafe opendir(directory) else { return }
    while let entry = unsafe readdir(stream) {
      let name = unsafe withUnsafePointer(to: &entry.pointee.d_name) { tuple in
        unsafe tuple.withMemoryRebound(to: CChar.self, capacity: 256) { unsafe String(cString: $0) }
      }
      if name != "." && name != ".." { unsafe unlink(directory + "/" + name) }
    }
    unsafe closedir(stream)
    unsafe rmdir(directory)
  }

  static func write(_ text: String, to path: String) throws(MintError) {
    let descriptor = unsafe open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else { throw MintError(operation: "open \(path)", reason: systemReason()) }
    defer { close(descriptor) }
    var rest = Array(text.utf8)[...]
    while !rest.isEmpty {
      let written = unsafe rest.withUnsafeBytes { unsafe Glibc.write(descriptor, $0.baseAddress, $0.count) }
      guard written > 0 else { throw MintError(operation: "write \(path)", reason: systemReason()) }
      rest = rest.dropFirst(written)
    }
  }

  private static func systemReason() -> String {
    let code = errno
    guard let text = unsafe strerror(code) else { return "errno \(code)" }
    return unsafe String(cString: text)
  }
}

/// PEM's textual encoding (RFC 7468).
enum PEM {
  static func encode(_ der: [UInt8], label: String) -> String {
    let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
    var text: [UInt8] = Array("-----BEGIN \(label)-----\n".utf8)
    var column = 0
    for start in stride(from: 0, to: der.count, by: 3) {
      let group = der[start..<min(start + 3, der.count)]
      let bits = group.reduce(0) { $0 << 8 | Int($1) } << (8 * (3 - group.count))
      for index in 0..<4 {
        text.append(index <= group.count ? alphabet[bits >> (18 - 6 * index) & 63] : UInt8(ascii: "="))
      }
      column += 4
      if column == 64 {
        text.append(UInt8(ascii: "\n"))
        column = 0
      }
    }
    if column > 0 { text.append(UInt8(ascii: "\n")) }
    text += Array("-----END \(label)-----\n".utf8)
    return String(decoding: text, as: UTF8.self)
  }
}
