internal import Foundation
internal import LupineIO
internal import LupineSession

/// Where the body of an operation goes.
public enum OperationOutput: Sendable, Hashable {
  /// Into memory: `responseData`. Default.
  case memory
  /// Into a file, with `responseData` nil. It is made when the body begins, for its owner alone; what was written stays when the operation
  /// fails. `replacing` says whether a file that is there is removed first; if not, that is an error.
  case file(path: String, replacing: Bool = false)
}

/// The body as far as it came. Only the exchanges of its operation touch it, one after the other: the session's callbacks are serial.
struct OperationBody: Sendable {
  let output: OperationOutput
  let limit: Int
  private(set) var data: Data?
  private(set) var file: File?
  private(set) var count: Int64 = 0

  init(_ output: OperationOutput, limit: Int) {
    self.output = output
    self.limit = limit
    if case .memory = output { data = Data() }
  }

  /// Begins from nothing, in the file that `emptyFile()` gave.
  mutating func reset(_ file: File?) {
    count = 0
    self.file = file
    if case .memory = output { data = Data() }
  }

  /// Goes on from an earlier place: what came behind it comes again.
  mutating func rewind(to offset: Int64) {
    count = offset
    data = data?.prefix(Int(offset))
  }

  /// The file that is there, without contents, or a new one; nil for memory. Blocks: call it on a copy, without the operation's lock.
  func emptyFile() throws(SessionError) -> File? {
    guard case .file(let path, let replacing) = output else { return nil }
    do throws(IOError) {
      if let file {
        try file.truncate(to: 0)
        return file
      }
      if replacing { try Self.remove(path) }
      return try File.create(path)
    } catch {
      throw Self.failure(path, error)
    }
  }

  /// Writes a part behind what came before, if the body goes to a file. Blocks: call it on a copy, without the operation's lock.
  func write(_ part: Data) throws(SessionError) {
    guard case .file(let path, _) = output else { return }
    do throws(IOError) {
      try file?.write(Array(part), at: count)
    } catch {
      throw Self.failure(path, error)
    }
  }

  /// Counts a part that was written, or keeps it in memory.
  ///
  /// - Parameter expected: bytes of the whole, if that is known. Of what is known to be too much, no more is taken than may explain it.
  mutating func append(_ part: Data, of expected: Int64?) throws(SessionError) {
    if case .memory = output {
      let room = (expected ?? 0 > limit ? min(limit, SessionConfiguration.excessLimit) : limit) - Int(count)
      guard part.count <= room else {
        throw SessionError(
          .bodyTooLarge, phase: .receive,
          message: "the body exceeds \(limit) bytes: raise Request.maximumBufferedBodySize, or use a file")
      }
      data?.append(part)
    }
    count += Int64(part.count)
  }

  /// Reports what the system otherwise says only when a file is closed. Blocks: call it on a copy, without the operation's lock.
  func flush() throws(SessionError) {
    guard case .file(let path, _) = output else { return }
    do throws(IOError) {
      try file?.flush()
    } catch {
      throw Self.failure(path, error)
    }
  }

  /// Gives the file away; it is closed when it is let go.
  mutating func takeFile() -> File? { file.take() }

  private static func remove(_ path: String) throws(IOError) {
    do throws(IOError) {
      try File.remove(path)
    } catch {
      guard case .notFound = error else { throw error }
    }
  }

  private static func failure(_ path: String, _ error: IOError) -> SessionError {
    SessionError(
      .fileFailed, phase: .file, message: "the body cannot be written to \(path): \(error)", underlying: error)
  }
}
