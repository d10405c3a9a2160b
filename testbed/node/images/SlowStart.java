import java.io.IOException;
import java.lang.reflect.Method;
import java.net.URI;
import java.nio.file.FileSystems;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;

/** Starts as servers with a framework do: loads classes, reads what they declare, and is ready when that is done. */
public class SlowStart {
    public static void main(String[] arguments) throws Exception {
        Map<String, Integer> methods = new HashMap<>();
        for (String name : list(Integer.parseInt(arguments[0]))) {
            scan(name, methods);
        }
        System.out.println("done " + Files.readString(Path.of("/proc/uptime")).trim());
        Files.createFile(Path.of(arguments[1]));
        Thread.sleep(Long.MAX_VALUE);
    }

    private static List<String> list(int most) throws IOException {
        Path modules = FileSystems.getFileSystem(URI.create("jrt:/")).getPath("modules");
        try (Stream<Path> files = Files.walk(modules)) {
            return files.filter(file -> file.toString().endsWith(".class") && file.getNameCount() > 3)
                    .map(file -> file.subpath(2, file.getNameCount()).toString())
                    .map(file -> file.substring(0, file.length() - ".class".length()).replace('/', '.'))
                    .limit(most)
                    .toList();
        }
    }

    private static void scan(String name, Map<String, Integer> methods) {
        try {
            for (Method method : Class.forName(name, false, null).getDeclaredMethods()) {
                methods.merge(method.toGenericString(), method.getDeclaredAnnotations().length, Integer::sum);
            }
        } catch (ClassNotFoundException | LinkageError missing) {
            methods.merge(name, 1, Integer::sum);
        }
    }
}
