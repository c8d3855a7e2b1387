import Foundation
import Testing

/// The built `lupine`, run as a process of its own.
///
/// SwiftPM puts every product of a build into one directory, so the tool lies beside the program that runs the tests:
/// `/proc/self/exe` is `…/LupinePackageTests.xctest`, and the tool is `…/lupine`.
enum Tool {
  struct Outcome: Sendable {
    var status: Int32
    var output: Data
    var error: String

    var text: String { String(decoding: output, as: UTF8.self) }
    var lines: [String] { text.split(separator: "\n").map(String.init) }
  }

  static let path: String = {
    let runner =
      (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? CommandLine.arguments[0]
    return URL(fileURLWithPath: runner).deletingLastPathComponent().appendingPathComponent("lupine").path
  }()

  /// Runs it to its end. Its streams are files, so that no full pipe can hold it up, and so that it sees no terminal.
  ///
  /// - Parameter environment: variables besides those of this process.
  static func run(
    _ arguments: [String], input: String = "", in directory: Folder? = nil, environment: [String: String] = [:]
  ) async throws -> Outcome {
    let folder = try Folder()
    try Data(input.utf8).write(to: folder.url("input"))
    let process = try process(arguments, in: directory ?? folder)
    if !environment.isEmpty {
      process.environment = ProcessInfo.processInfo.environment.merging(environment) { $1 }
    }
    let input = try FileHandle(forReadingFrom: folder.url("input"))
    process.standardInput = input
    var handles = [input]
    // A process that has ended keeps them, and Foundation reads beyond the end of its list of descriptors where there are a thousand and more.
    defer { for handle in handles { try? handle.close() } }
    for (name, isOutput) in [("output", true), ("error", false)] {
      try folder.write("", to: name)
      let handle = try FileHandle(forWritingTo: folder.url(name))
      handles.append(handle)
      if isOutput { process.standardOutput = handle } else { process.standardError = handle }
    }
    try await finish(process) { try process.run() }
    return Outcome(
      status: process.terminationStatus, output: try Data(contentsOf: folder.url("output")),
      error: String(decoding: try Data(contentsOf: folder.url("error")), as: UTF8.self))
  }

  /// A process that is ready to start.
  static func process(_ arguments: [String], in directory: Folder) throws -> Process {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: path)
    process.arguments = arguments
    process.currentDirectoryURL = directory.root
    return process
  }

  /// Starts a process and waits for its end.
  static func finish(_ process: sending Process, start: () throws -> Void) async throws {
    try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
      process.terminationHandler = { _ in continuation.resume() }
      do {
        try start()
      } catch {
        process.terminationHandler = nil
        continuation.resume(throwing: error)
      }
    }
  }
}

/// A private directory, removed with its last reference.
final class Folder: Sendable {
  let root: URL

  init(
    at root: URL = FileManager.default.temporaryDirectory.appendingPathComponent("lupine-tests-\(UUID().uuidString)")
  ) throws {
    self.root = root
    try FileManager.default.createDirectory(at: root, withIntermediateDirectories: true)
  }

  deinit {
    try? FileManager.default.removeItem(at: root)
  }

  func url(_ name: String) -> URL { root.appendingPathComponent(name) }

  func path(_ name: String) -> String { url(name).path }

  func bytes(_ name: String) throws -> [UInt8] { [UInt8](try Data(contentsOf: url(name))) }

  func exists(_ name: String) -> Bool { FileManager.default.fileExists(atPath: path(name)) }

  @discardableResult
  func write(_ text: String, to name: String) throws -> String {
    try Data(text.utf8).write(to: url(name))
    return path(name)
  }
}
