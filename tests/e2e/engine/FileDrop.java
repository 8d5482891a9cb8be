import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.Header;
import io.debezium.engine.format.Json;
import io.debezium.engine.format.KeyValueHeaderChangeEventFormat;
import java.io.IOException;
import java.io.Reader;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.List;
import java.util.Properties;
import java.util.stream.Stream;

/**
 * FileDrop FOLDER CONNECTOR.properties: a Debezium connector whose records are dropped as files of JSON lines.
 *
 * <p>A batch is written aside, forced to disk, renamed, and only then acknowledged: a kill -9 can repeat records and
 * never lose one. A file is named by the offset of its first record, and offsets go on over restarts, so that they are
 * the order of arrival.
 */
public final class FileDrop implements DebeziumEngine.ChangeConsumer<ChangeEvent<String, String>> {
  private static final String SUFFIX = ".jsonl";
  private final Path folder;
  private long offset;

  private FileDrop(Path folder) throws IOException {
    this.folder = Files.createDirectories(folder);
    try (DirectoryStream<Path> torn = Files.newDirectoryStream(folder, ".tmp-*")) {
      for (Path file : torn) Files.delete(file);
    }
    Path newest = null;
    try (DirectoryStream<Path> files = Files.newDirectoryStream(folder, "*" + SUFFIX)) {
      for (Path file : files) if (newest == null || file.compareTo(newest) > 0) newest = file;
    }
    if (newest != null) {
      try (Stream<String> lines = Files.lines(newest)) {
        offset = Long.parseLong(newest.getFileName().toString().replace(SUFFIX, "")) + lines.count();
      }
    }
  }

  public static void main(String[] given) throws Exception {
    Properties properties = new Properties();
    try (Reader file = Files.newBufferedReader(Path.of(given[1]))) {
      properties.load(file);
    }
    DebeziumEngine<ChangeEvent<String, String>> engine =
        DebeziumEngine.create(KeyValueHeaderChangeEventFormat.of(Json.class, Json.class, Json.class))
            .using(properties)
            .notifying(new FileDrop(Path.of(given[0])))
            .using((boolean well, String message, Throwable failure) -> {
              if (!well) System.err.println("ENGINE FAILED " + message + " " + failure);
              Runtime.getRuntime().halt(well ? 0 : 1);
            })
            .build();
    Runtime.getRuntime().addShutdownHook(new Thread(() -> {
      try {
        engine.close();
      } catch (Exception failure) {
        System.err.println("while closing: " + failure);
      }
    }));
    engine.run();
  }

  @Override
  public boolean supportsTombstoneEvents() {
    return true;
  }

  @Override
  public void handleBatch(
      List<ChangeEvent<String, String>> records,
      DebeziumEngine.RecordCommitter<ChangeEvent<String, String>> committer)
      throws InterruptedException {
    StringBuilder text = new StringBuilder(records.size() * 700);
    long next = offset;
    for (ChangeEvent<String, String> record : records) append(text, record, next++);
    try {
      drop(text);
    } catch (IOException failure) {
      throw new IllegalStateException(failure);
    }
    offset = next;
    for (ChangeEvent<String, String> record : records) committer.markProcessed(record);
    committer.markBatchFinished();
  }

  private void drop(StringBuilder text) throws IOException {
    Path aside = folder.resolve(".tmp-" + ProcessHandle.current().pid());
    try (FileChannel file = FileChannel.open(aside, StandardOpenOption.CREATE, StandardOpenOption.WRITE)) {
      ByteBuffer bytes = ByteBuffer.wrap(text.toString().getBytes(StandardCharsets.UTF_8));
      while (bytes.hasRemaining()) file.write(bytes);
      file.force(true);
    }
    Path named = folder.resolve(String.format("%020d", offset) + SUFFIX);
    Files.move(aside, named, StandardCopyOption.ATOMIC_MOVE);
  }

  private static void append(StringBuilder text, ChangeEvent<String, String> record, long offset) {
    text.append("{\"offset\":").append(offset).append(",\"topic\":").append(quoted(record.destination()));
    String between = ",\"headers\":{";
    List<Header<String>> headers = record.headers();
    for (Header<String> header : headers == null ? List.<Header<String>>of() : headers) {
      if (header.getKey().startsWith("__debezium.context.")) continue;
      text.append(between).append(quoted(header.getKey())).append(':').append(header.getValue());
      between = ",";
    }
    if (between.equals(",")) text.append('}');
    text.append(",\"key\":").append(record.key()).append(",\"value\":").append(record.value()).append("}\n");
  }

  private static String quoted(String text) {
    return '"' + text.replace("\\", "\\\\").replace("\"", "\\\"") + '"';
  }
}
