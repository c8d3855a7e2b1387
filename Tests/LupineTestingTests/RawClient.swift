import Glibc

@testable import LupineTesting

/// A client over bare sockets, so that the servers are judged by bytes and not by another part of this package.
final class RawClient {
  let descriptor: Int32
  private var buffer: [UInt8] = []
  private var isClosed = false

  init(_ address: LoopbackAddress, port: Int) throws {
    descriptor = try OutgoingSocket.connect(address, port: UInt16(port))
  }

  convenience init(_ server: LoopbackServer) throws { try self.init(server.address, port: server.port) }

  deinit { finish() }

  func finish() {
    if !isClosed { close(descriptor) }
    isClosed = true
  }

  func send(_ text: String) throws { try send(Array(text.utf8)) }

  func send(_ bytes: [UInt8]) throws {
    try unsafe bytes.withUnsafeBytes { try unsafe SystemCalls.sendAll(descriptor, $0, more: false) }
  }

  func halfClose() { shutdown(descriptor, Int32(SHUT_WR)) }

  /// Receives once; nil at the end of stream. A reset throws.
  func receive() throws -> [UInt8]? {
    var chunk = [UInt8](repeating: 0, count: 65536)
    let count = try unsafe chunk.withUnsafeMutableBytes { try unsafe SystemCalls.receive(descriptor, into: $0) }
    return count == 0 ? nil : Array(chunk[..<count])
  }

  /// Everything until the end of stream.
  func receiveAll() throws -> [UInt8] {
    var all = buffer
    buffer = []
    while let more = try receive() { all += more }
    return all
  }

  func receive(count: Int) throws -> [UInt8] {
    while buffer.count < count {
      guard let more = try receive() else { throw LoopbackError.peerClosed }
      buffer += more
    }
    defer { buffer.removeFirst(count) }
    return Array(buffer[..<count])
  }

  /// One line without CR LF.
  func line() throws -> String {
    while true {
      if let end = buffer.firstIndex(of: 0x0A) {
        return String(decoding: try receive(count: end + 1).dropLast(2), as: UTF8.self)
      }
      guard let more = try receive() else { throw LoopbackError.peerClosed }
      buffer += more
    }
  }

  /// Segments with data that the peer sent, from the kernel's own count (TCP_INFO).
  func segmentsReceived() -> Int {
    var information = [UInt8](repeating: 0, count: 256)
    var length = socklen_t(information.count)
    _ = unsafe getsockopt(descriptor, Int32(IPPROTO_TCP), TCP_INFO, &information, &length)
    return Int(information[152])  // the low byte of tcpi_data_segs_in in linux/tcp.h
  }

  /// Waits for the first event, and says whether data and the peer's end were reported together.
  func dataAndEndArriveTogether() -> Bool {
    var entry = pollfd(fd: descriptor, events: Int16(POLLIN) | 0x2000, revents: 0)  // POLLRDHUP
    _ = unsafe poll(&entry, 1, -1)
    return entry.revents & (Int16(POLLIN) | 0x2000) == Int16(POLLIN) | 0x2000
  }

  struct Response {
    var status: Int
    var fields = ServerFields()
    var body: [UInt8] = []
    var trailers = ServerFields()
    var text: String { String(decoding: body, as: UTF8.self) }
  }

  func head() throws -> Response {
    let first = try line()
    var response = Response(status: Int(first.split(separator: " ")[1]) ?? 0)
    response.fields = try section()
    return response
  }

  private func section() throws -> ServerFields {
    var fields = ServerFields()
    while case let text = try line(), !text.isEmpty {
      let parts = text.split(separator: ":", maxSplits: 1)
      fields.append(String(parts[0]), String(parts[1].dropFirst()))
    }
    return fields
  }

  /// One response; informational ones are skipped.
  func response(toHead: Bool = false) throws -> Response {
    var response = try head()
    while response.status < 200 { response = try head() }
    if toHead || response.status == 204 || response.status == 304 { return response }
    if response.fields.has("Transfer-Encoding", token: "chunked") {
      while case let size = Int(try line(), radix: 16) ?? -1, size > 0 {
        response.body += try receive(count: size)
        _ = try line()
      }
      response.trailers = try section()
    } else if let length = response.fields.first("Content-Length").flatMap({ Int($0) }) {
      response.body = try receive(count: length)
    } else {
      response.body = try receiveAll()
    }
    return response
  }

  func get(_ target: String, fields: String = "") throws -> Response {
    try send("GET \(target) HTTP/1.1\r\nHost: x\r\n\(fields)\r\n")
    return try response()
  }
}
