import Foundation

/// Folders of certificates for OpenSSL, made ready with its tool.
package enum CertificateFolder {
  /// Nothing in the folder was given a name.
  package struct NothingHashed: Error {
    package var names: [String]
  }

  /// Gives the certificates of a folder the names by which OpenSSL looks for them.
  package static func rehash(_ folder: String) throws {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/usr/bin/openssl")
    process.arguments = ["rehash", folder]
    process.standardOutput = FileHandle.nullDevice
    process.standardError = FileHandle.nullDevice
    try process.run()
    process.waitUntilExit()
    let names = try FileManager.default.contentsOfDirectory(atPath: folder)
    if !names.contains(where: { $0.hasSuffix(".0") }) { throw NothingHashed(names: names) }
  }
}
