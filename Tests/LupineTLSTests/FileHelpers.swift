import Foundation
import LupineTesting

/// Runs `body` with the path of a file of the shared authorities' revocation lists, which revoke nothing.
func withRevocationLists<Result>(_ body: (String) throws -> Result) throws -> Result {
  let files = try Mint.shared.root.writeRoot()
  defer { files.remove() }
  let text =
    try Mint.shared.root.revocationListPEM(revoking: []) + Mint.shared.middle.revocationListPEM(revoking: [])
  return try body(try files.add(text, name: "lists.pem"))
}

/// Puts another file's contents in the place of a file, as a new inode.
func replaceFile(_ path: String, with other: String) throws {
  try FileManager.default.removeItem(atPath: path)
  try text(of: other).write(toFile: path, atomically: false, encoding: .utf8)
}

/// Writes over a file in place: its directory, and the inode, stay what they were.
func overwriteFile(_ path: String, with text: String) throws {
  let file = try FileHandle(forWritingTo: URL(fileURLWithPath: path))
  try file.truncate(atOffset: 0)
  try file.write(contentsOf: Data(text.utf8))
  try file.close()
}

/// Empties a directory.
func removeAll(in directory: String) throws {
  for name in try FileManager.default.contentsOfDirectory(atPath: directory) {
    try FileManager.default.removeItem(atPath: directory + "/" + name)
  }
}

/// A path in a new private directory, for a file that does not exist yet.
func withTemporaryPath<Result>(_ name: String, _ body: (String) throws -> Result) throws -> Result {
  let files = try Mint.shared.root.writeRoot()
  defer { files.remove() }
  return try body(files.directory + "/" + name)
}

/// Makes `path` a symbolic link to `target`.
func link(_ path: String, to target: String) throws {
  try FileManager.default.createSymbolicLink(atPath: path, withDestinationPath: target)
}

/// The certificates of a PEM file, DER.
func certificates(inPEM text: String) -> [[UInt8]] {
  text.components(separatedBy: "-----BEGIN CERTIFICATE-----").dropFirst().compactMap { part in
    part.components(separatedBy: "-----END").first.flatMap {
      Data(base64Encoded: $0, options: .ignoreUnknownCharacters)
    }
    .map { [UInt8]($0) }
  }
}

func permissions(of path: String) throws -> Int {
  let attributes = try FileManager.default.attributesOfItem(atPath: path)
  return (attributes[.posixPermissions] as? NSNumber)?.intValue ?? -1
}

func text(of path: String) throws -> String {
  try String(contentsOfFile: path, encoding: .utf8)
}
