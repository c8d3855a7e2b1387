internal import LupineBase
internal import LupineCommandLine
internal import LupineRules
internal import LupineSession

/// The cookie jars of a batch: one for all requests that want cookies, and one for each file.
final class BatchJars: Sendable {
  /// Which jar a request uses.
  enum Choice: Hashable, Sendable {
    case none
    case shared
    /// A `cookies.txt`, by its resolved path.
    case file(ByteExact<String>)
  }

  /// Files of one batch.
  static let limit = 64

  private let shared = CookieStorage()
  private let files = Locked<[ByteExact<String>: CookieStorage]>([:])

  /// The jar of a choice; a file is read when it is first named, and need not be there.
  func storage(for choice: Choice) throws -> CookieStorage? {
    switch choice {
    case .none: return nil
    case .shared: return shared
    case .file(let file):
      let path = file.wrappedValue
      return try files.withLock { files in
        if let storage = files[file] { return storage }
        guard files.count < Self.limit else {
          throw BatchRefusal("\"cookieFile\" names more than \(Self.limit) files in one batch")
        }
        let storage = CookieStorage()
        if FileSystem.exists(path) { try Self.load(path, into: storage) }
        files[file] = storage
        return storage
      }
    }
  }

  private static func load(_ path: String, into storage: CookieStorage) throws {
    let bytes = try SmallFile.read(path, limit: NetscapeCookieFile.sizeLimit)
    guard NetscapeCookieFile.isOne(bytes.span) else {
      throw BatchRefusal("\"cookieFile\": \(path) is no cookies.txt, and stays as it is", code: "fileFailed")
    }
    let report = try storage.load(from: path, format: .netscape)
    for problem in report.problems {
      System.tell("lupine: \(TerminalText.escaped(path)): line \(problem.place) is left out: \(problem.message)\n")
    }
  }

  /// Writes every file; the first failure is thrown when the others are written, and others are told.
  func save() throws(SessionError) {
    var failure: SessionError?
    for (file, storage) in files.withLock({ $0 }).sorted(by: { $0.key.wrappedValue < $1.key.wrappedValue }) {
      let path = file.wrappedValue
      do throws(SessionError) {
        let omitted = try storage.save(to: path, format: .netscape)
        if omitted > 0 {
          System.tell(
            "lupine: \(TerminalText.escaped(path)): \(omitted) cookies with tabs in them have no place in the format\n")
        }
      } catch {
        if failure == nil { failure = error } else { System.tell(loss: error) }
      }
    }
    if let failure { throw failure }
  }
}
