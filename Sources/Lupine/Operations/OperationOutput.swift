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

/// The body as far as it came. Only its operation's current attempt touches it.
struct OperationBody: Sendable {
  let output: OperationOutput
  let limit: Int
  private(set) var data: Data?
  private var file: File?
  private(set) var count: Int64 = 0

  init(_ output: OperationOutput, limit: Int) {
    self.output = output
    self.limit = limit
    if case .memory = output { data = Data() }
  }

  /// Begins from nothing.
  mutating func reset() throws(SessionError) {
    count = 0
    guard case .file(let path, let replacing) = output else {
      data = Data()
      return
    }
    do throws(IOError) {
      if let file { return try file.truncate(to: 0) }
      if replacing { try Self.remove(path) }
      file = try File.create(path)
    } catch {
      throw Self.failure(path, error)
    }
  }

  mutating func append(_ part: Data) throws(SessionError) {
    guard case .file(let path, _) = output else {
      guard part.count <= limit - Int(count) else {
        throw SessionError(
          .bodyTooLarge, phase: .receive,
          message: "the body exceeds \(limit) bytes: raise Request.maximumBufferedBodySize, or use a file")
      }
      data?.append(part)
      count += Int64(part.count)
      return
    }
    do throws(IOError) {
      try file?.write(Array(part), at: count)
      count += Int64(part.count)
    } catch {
      throw Self.failure(path, error)
    }
  }

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
