import FoundationEssentials
import Glibc
import LupineRules
import LupineTesting
import LupineWire
import Testing

@testable import LupineSession

/// A directory with a cache, removed at the end.
enum CacheFolder {
  /// With the path of one, which goes afterwards.
  static func with(_ body: (String) async throws -> Void) async throws {
    let scratch = try ScratchDirectory()
    let path = scratch.path + "/cache"
    try await body(path)
    try remove(path)
  }

  /// A response under a key, with a body of zeros.
  static func record(_ key: String, size: Int) throws -> CacheRecord {
    let head = try ResponseHead(status: 200, fields: [("Cache-Control", "max-age=10")])
    let body = [UInt8](repeating: 0, count: size)
    return .response(
      try #require(
        StoredResponse(key: key, head: head, body: body, requestTime: 1, responseTime: 1, authorization: nil)))
  }

  static func remove(_ path: String) throws {
    if FileManager.default.fileExists(atPath: path) { try FileManager.default.removeItem(atPath: path) }
  }

  /// The files of its records.
  static func files(_ path: String) throws -> [String] {
    try FileManager.default.contentsOfDirectory(atPath: path + "/v1").filter { $0 != "lock" && !$0.hasPrefix("part-") }
      .map { path + "/v1/" + $0 }
  }

  /// The bytes of its records.
  static func size(_ path: String) throws -> Int { try files(path).reduce(0) { $0 + TextFile.bytes($1).count } }

  /// Writes what its lock counts.
  static func setCount(_ bytes: [UInt8], _ path: String) throws {
    let descriptor = unsafe open(path + "/v1/lock", O_WRONLY | O_TRUNC | O_CLOEXEC)
    guard descriptor >= 0 else { throw LoopbackError.system(call: "open", code: errno) }
    defer { close(descriptor) }
    let count = unsafe bytes.withUnsafeBytes { unsafe Glibc.write(descriptor, $0.baseAddress, $0.count) }
    guard count == bytes.count else { throw LoopbackError.system(call: "write", code: errno) }
  }

  /// A body that says what it must be, as it stands in memory.
  static func body(_ number: Int, _ version: Int, size: Int) -> [UInt8] {
    let text = Array("\(number) \(version) ".utf8)
    return (0..<size).map { $0 < text.count ? text[$0] : UInt8(truncatingIfNeeded: $0 &* 31 &+ number &+ version) }
  }

  static func request(_ number: Int) throws -> Request { try Request("http://cache.example/\(number)") }

  static func store(_ number: Int, _ version: Int = 0, size: Int, in cache: ResponseCache) throws {
    let request = try request(number)
    let head = try ResponseHead(
      status: 200, fields: [("Cache-Control", "max-age=1000000"), ("X-Version", "\(version)"), ("X-Size", "\(size)")])
    let response = Response(head: head, url: request.parsedURL)
    cache.store(CachedResponse(response: response, data: Data(body(number, version, size: size))), for: request)
  }

  /// What is wrong with a record; nil if nothing is, or nothing is there.
  static func fault(_ number: Int, in cache: ResponseCache) async throws -> String? {
    guard let found = await cache.cachedResponse(for: try request(number)) else { return nil }
    let fields = found.response.head.fields
    guard let version = fields.first(named: "x-version").flatMap({ Int($0) }),
      let size = fields.first(named: "x-size").flatMap({ Int($0) })
    else { return "\(number): a field is missing" }
    return Array(found.data) == body(number, version, size: size) ? nil : "\(number): wrong bytes"
  }
}

/// The files of a cache, locked as another process might lock them: who writes there waits until they are released.
final class HeldCache {
  private let descriptor: Int32

  init(_ path: String) throws {
    descriptor = unsafe open(path + "/v1/lock", O_RDWR | O_CLOEXEC)
    guard descriptor >= 0 else { throw LoopbackError.system(call: "open", code: errno) }
    guard flock(descriptor, LOCK_EX) == 0 else { throw LoopbackError.system(call: "flock", code: errno) }
  }

  deinit { close(descriptor) }

  func release() { _ = flock(descriptor, LOCK_UN) }
}
