import Foundation

/// Encrypts private keys with the `openssl` tool.
package enum EncryptedKey {
  /// Writes the key in the file `path`, encrypted, into the file `target`.
  package static func write(_ path: String, to target: String, passphrase: String) throws {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/usr/bin/openssl")
    process.arguments = [
      "pkcs8", "-topk8", "-v2", "aes-256-cbc", "-passout", "pass:" + passphrase, "-in", path, "-out", target,
    ]
    process.standardError = FileHandle.nullDevice
    try process.run()
    process.waitUntilExit()
  }
}
