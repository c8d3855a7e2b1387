internal import Synchronization
internal import LupineBase
internal import LupineEngine
internal import Logging
internal import LupineWire

/// Fetches: a pool of connections, a configuration, and the tasks that use them.
///
/// Every method may be called from any thread. A session needs no explicit end: when its last reference goes, its tasks finish and its
/// connections are closed. `invalidateAndCancel()` ends it at once.
public final class Session: Sendable {
  /// The configuration that the session was made with.
  public let configuration: SessionConfiguration
  let transport: any Transport
  let composer: RequestComposer
  /// The configured times in the unit of the engine, worked out once.
  let times: (request: Int64, resource: Int64)
  private let isInvalid = LockedStorage(false)

  /// A session with the default configuration, for the whole process.
  ///
  /// Traps, with a message, if the engine cannot be started because the process has no descriptors or threads left.
  public static let shared: Session = {
    do { return try Session() } catch { preconditionFailure("the shared session cannot be made: \(error)") }
  }()

  /// Makes a session.
  ///
  /// - Throws: `SessionError`: `.badRequest` for settings that contradict each other, `.system` if the engine cannot be started.
  public init(_ configuration: SessionConfiguration = SessionConfiguration()) throws(SessionError) {
    self.configuration = configuration
    times = (
      configuration.timeoutIntervalForRequest.saturatedNanoseconds,
      configuration.timeoutIntervalForResource.saturatedNanoseconds
    )
    if let transport = configuration.transport {
      self.transport = transport
    } else {
      transport = try EngineTransport(configuration)
    }
    do throws(WireError) {
      composer = try RequestComposer(
        userAgent: configuration.userAgent, additionalFields: configuration.additionalFields,
        acceptsCompressedContent: configuration.acceptsCompressedContent)
    } catch {
      throw SessionError(
        .badRequest, phase: .prepare, message: "SessionConfiguration.userAgent would break HTTP framing: \(error)",
        underlying: error)
    }
  }

  /// Cancels every task and closes every connection; later requests fail with `.sessionInvalidated`.
  public func invalidateAndCancel() {
    isInvalid.withLock { $0 = true }
    transport.invalidate(cancelling: true)
  }

  /// Lets tasks finish, then closes every connection; later requests fail with `.sessionInvalidated`.
  public func finishTasksAndInvalidate() {
    isInvalid.withLock { $0 = true }
    transport.invalidate(cancelling: false)
  }

  /// What the connection pool has done so far. Zeros for a transport other than the network.
  public func poolStatistics() async -> PoolStatistics {
    guard let transport = transport as? EngineTransport else { return PoolStatistics() }
    return await withCheckedContinuation { continuation in
      transport.counters { counters in continuation.resume(returning: PoolStatistics(counters)) }
    }
  }

  func checkValid(_ request: Request) throws(SessionError) {
    guard isInvalid.withLock({ $0 }) else { return }
    throw SessionError(
      .sessionInvalidated, phase: .prepare, message: "the session was invalidated", failingURL: request.urlString)
  }

  func log(_ message: @autoclosure () -> String) {
    configuration.logger?.debug("\(message())")
  }
}

/// What a connection pool has done.
public struct PoolStatistics: Sendable, Equatable {
  /// Connections opened.
  public var opened = 0
  /// Requests served by a connection that had served another one.
  public var reused = 0
  /// Requests that had to wait for a connection, for a new one too.
  public var waits = 0
  /// Connections closed, by reason.
  public var closes: [String: Int] = [:]

  /// Zeros.
  public init() {}

  init(_ counters: PoolCounters) {
    opened = counters.opened
    reused = counters.reused
    waits = counters.waits
    for (reason, count) in counters.closes { closes["\(reason)"] = count }
  }
}
